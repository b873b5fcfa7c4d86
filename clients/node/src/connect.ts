/** `connect`: a client that has reached a broker. */

import { CALL_PAUSE_MAX_MS, Pool, PUSH_PAUSE_MAX_MS } from "./addresses";
import { milliseconds } from "./checks";
import { Client } from "./client";
import { badArgument } from "./errors";
import { Link } from "./link";
import { done } from "./requests";
import type { ConnectOptions, NodeAddress } from "./types";

const TIMEOUT_MS = 10_000;

/**
 * Connect to one of the nodes, within `timeoutMs`. The others are tried when it fails; nodes that
 * do not lead name the one that does. A mistake (a wrong password, a certificate that is not
 * accepted) is told at once.
 *
 * ```js
 * const client = await connect(["127.0.0.1:1883"]);
 * ```
 */
export async function connect(
  nodes: readonly (NodeAddress | string)[],
  options: ConnectOptions = {},
): Promise<Client> {
  const { bootstrap = false, signal, timeoutMs = TIMEOUT_MS, tls = false, credentials } = options;
  milliseconds("timeoutMs", timeoutMs, 1);
  if (typeof credentials === "object" && !("token" in credentials) && !credentials.user) {
    throw badArgument("credentials need a user and a password, or a token");
  }
  const verifies = tls === true || (tls !== false && tls.rejectUnauthorized !== false);
  const guards = credentials !== undefined && !verifies;
  const dialOptions = { tls, credentials };
  const link = new Link(new Pool(nodes, CALL_PAUSE_MAX_MS, guards), dialOptions, timeoutMs);
  const makePool = () => new Pool(nodes, PUSH_PAUSE_MAX_MS, guards);
  const client = new Client(link, nodes, { makePool, options: dialOptions });
  try {
    await link.ask(done("Ping", {}, { signal }));
    if (bootstrap) await client.bootstrap({ signal });
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}
