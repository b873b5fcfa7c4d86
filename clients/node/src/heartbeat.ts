/**
 * Whether a silent broker is still alive: pings of our own.
 *
 * TCP reports a dead peer only if its machine still answers. A machine without power, or a network
 * that drops everything, is noticed by silence. So after some silence a ping is sent, which every
 * node answers at once; if nothing is received for a while after that, the connection is dead. Any
 * byte counts as an answer. A large request on a slow line delays the ping behind it: bytes that
 * were sent and not answered give the broker more time.
 *
 * Brokers that know no ping answer in order, so that one behind a long poll is answered late.
 * `isKnown` tells that the broker answers pings; until then silence has no consequence.
 */

const SLOWEST_BYTES_PER_MS = 128; // the slowest line that is worth waiting for

export class Heartbeat {
  isKnown = false;
  private silentSince = 0;
  private askedAt: number | undefined; // when the ping was sent that is not answered

  constructor(
    private readonly quietMs: number,
    private readonly patienceMs: number,
  ) {}

  /** Something was received, or a connection begins. */
  heard(now: number): void {
    this.silentSince = now;
    this.askedAt = undefined;
  }

  /** A request was sent, after nothing was under way. */
  expects(now: number): void {
    if (this.askedAt === undefined) this.silentSince = now;
  }

  asked(now: number): void {
    this.askedAt = now;
  }

  /** Whether to ping now; if so, the ping counts as sent. */
  isDue(now: number): boolean {
    if (!this.isKnown || this.askedAt !== undefined || now - this.silentSince < this.quietMs) return false;
    this.askedAt = now;
    return true;
  }

  isDead(now: number, unansweredBytes = 0): boolean {
    if (this.askedAt === undefined) return false;
    return now - this.askedAt >= this.patienceMs + unansweredBytes / SLOWEST_BYTES_PER_MS;
  }
}
