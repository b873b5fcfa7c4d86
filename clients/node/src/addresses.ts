/**
 * The addresses of a client: which to try next, and when.
 *
 * A node that does not lead may name the leader: by its client address (Penstock) or its peer
 * address (HermesMQ). That one is next, without a pause; if it is none of our nodes, it is dialled
 * all the same, as one known node is enough. If it cannot be reached from here, our own are tried,
 * and it is believed again only when it is named once more. Otherwise the next of the list follows.
 *
 * Pauses double from 50 ms up to a limit, half of each by chance, and begin anew once a broker has
 * answered. Two nodes that name each other do not keep us in a tight loop: only the first
 * redirection in a row has no pause.
 *
 * **Credentials** go to our own addresses only, and to a named leader that is on this machine or
 * whose certificate is verified: else any server could make us hand them to another.
 */

import { isIP } from "node:net";

import { badArgument, type PenstockError } from "./errors";
import type { NodeAddress } from "./types";

const FIRST_PAUSE_MS = 50;

export const CALL_PAUSE_MAX_MS = 500;
export const PUSH_PAUSE_MAX_MS = 5_000;

export interface Address {
  host: string;
  port: number;
}

export function parseAddress(text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 65_535) {
    throw badArgument(`${JSON.stringify(text)} is no address: write "host:port"`);
  }
  return { host: (match[1] ?? match[2])!, port };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

interface Known extends Address {
  names: string[]; // under which other nodes know it
}

export class Pool {
  private readonly nodes: Known[];
  private current = 0;
  private attempts = 0;
  private leader: Address | undefined; // named by a node, and none of ours
  private avoided = ""; // named by a node, and not reachable
  private wasSent = false;

  constructor(
    nodes: readonly (NodeAddress | string)[],
    private readonly pauseMaxMs: number,
    private readonly guardsSecrets: boolean, // there are credentials, and nothing verifies servers
  ) {
    if (!Array.isArray(nodes) || nodes.length === 0) {
      throw badArgument('connect needs a list of nodes, such as ["127.0.0.1:1883"]');
    }
    this.nodes = nodes.map((node) => {
      const clientAddr = typeof node === "string" ? node : node.clientAddr;
      const peerAddr = typeof node === "string" ? undefined : node.peerAddr;
      const names = peerAddr === undefined ? [clientAddr] : [clientAddr, peerAddr];
      return { ...parseAddress(clientAddr), names };
    });
  }

  get address(): Address {
    return this.leader ?? this.nodes[this.current]!;
  }

  /** Choose the next address after a loss; return the pause before it. */
  failed(error: PenstockError): number {
    const named = this.trusted(error.code === "not_leader" ? error.leaderAddr : "");
    const isSent = named !== "" && this.turnTo(named);
    if (!isSent) {
      if (this.leader !== undefined) this.avoided = `${this.leader.host}:${this.leader.port}`;
      this.leader = undefined;
      this.current = (this.current + 1) % this.nodes.length;
    }
    const isFirst = isSent && !this.wasSent;
    this.wasSent = isSent;
    if (isFirst) return 0;
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.attempts++, 20), this.pauseMaxMs);
    return Math.max(longest * (1 - Math.random() / 2), error.retryAfterMs ?? 0);
  }

  succeeded(): void {
    this.attempts = 0;
    this.wasSent = false;
  }

  private trusted(named: string): string {
    if (named === "" || !this.guardsSecrets || this.indexOf(named) >= 0) return named;
    return isLoopback(named.replace(/:\d+$/, "")) ? named : "";
  }

  private turnTo(named: string): boolean {
    const index = this.indexOf(named);
    if (index >= 0) {
      this.current = index;
      this.leader = undefined;
      return true;
    }
    if (named === this.avoided) {
      this.avoided = "";
      return false;
    }
    try {
      this.leader = parseAddress(named);
    } catch {
      return false;
    }
    return true;
  }

  private indexOf(named: string): number {
    const byClient = this.nodes.findIndex((node) => node.names[0] === named);
    return byClient >= 0 ? byClient : this.nodes.findIndex((node) => node.names[1] === named);
  }
}
