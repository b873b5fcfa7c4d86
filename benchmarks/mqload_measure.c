/* What is measured besides counts: latency, and what a process used. */
#include "mqload.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- Latency histograms: 64 buckets per power of two, so within 1.6 % ----------------------- */

histogram latencies, reply_latencies;

void record(histogram *h, u64 ns) {
  h->count++;
  if (ns > h->max) h->max = ns;
  int shift = ns < 128 ? 0 : 63 - __builtin_clzll(ns) - 6;
  int bucket = ns < 128 ? (int)ns : (shift << 6) + (int)(ns >> shift);
  h->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

double percentile_us(const histogram *h, double percent) {
  u64 wanted = percent / 100 * h->count, seen = 0;
  for (int bucket = 0; bucket < BUCKETS; bucket++) {
    seen += h->buckets[bucket];
    if (seen <= wanted) continue;
    if (bucket < 128) return bucket / 1e3;
    return ((u64)(64 + (bucket & 63)) << ((bucket >> 6) - 1)) / 1e3;
  }
  return h->max / 1e3;
}

/* ---- What a process used -------------------------------------------------------------------- */

usage usage_of(int pid) {
  usage total = {0, 0};
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = pid ? opendir(path) : NULL;
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    unsigned long long cpu, wait;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
    FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%llu %llu", &cpu, &wait) == 2) {
      total.cpu_s += cpu / 1e9;
      total.wait_s += wait / 1e9;
    }
    fclose(file);
  }
  if (tasks) closedir(tasks);
  return total;
}

usage usage_since(int pid, usage before) {
  usage now = usage_of(pid);
  return (usage){now.cpu_s - before.cpu_s, now.wait_s - before.wait_s};
}

long resident_kib(int pid) {
  char line[256];
  long kib = 0;
  snprintf(line, sizeof line, "/proc/%d/status", pid);
  FILE *file = pid ? fopen(line, "r") : NULL;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  if (file) fclose(file);
  return kib;
}
