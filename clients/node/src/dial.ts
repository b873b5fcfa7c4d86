/**
 * Opens a connection: TCP, TLS if it is asked for, and the login where there are credentials.
 *
 * Nothing else is sent before the login is answered. `node:tls` is loaded when it is needed: it
 * takes longer to load than all of this package.
 */

import { connect as connectTcp, isIP, type Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";

import type { Address } from "./addresses";
import { encodeRequest } from "./codec";
import { PenstockError, protocolError, refusal } from "./errors";
import { FrameReader } from "./frames";
import type { ConnectOptions, Credentials } from "./types";

const KEEP_ALIVE_MS = 10_000;
const UNKNOWN_KIND = "no known kind"; // says a broker that is older than logins, and has no users

export type DialOptions = Pick<ConnectOptions, "tls" | "credentials">;

/** Connect within `timeoutMs`. The socket is destroyed if `signal` aborts. */
export async function dial(
  address: Address,
  options: DialOptions,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Socket> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const credentials = await given(options.credentials);
  const socket = open(address, options.tls ?? false);
  try {
    await opened(socket, options.tls ? "secureConnect" : "connect", limit, address);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    if (credentials !== undefined) await logIn(socket, credentials, limit, address);
    return socket;
  } catch (error) {
    socket.on("error", () => undefined); // it may still have one to report
    socket.destroy();
    throw error;
  }
}

async function given(credentials: DialOptions["credentials"]): Promise<Credentials | undefined> {
  if (typeof credentials !== "function") return credentials;
  try {
    return await credentials();
  } catch (cause) {
    throw new PenstockError("unauthenticated", `no credentials: ${String(cause)}`, { cause });
  }
}

function open({ host, port }: Address, tls: boolean | ConnectionOptions): Socket {
  if (tls === false) return connectTcp({ host, port });
  const { connect } = require("node:tls") as typeof import("node:tls");
  const servername = isIP(host) === 0 ? { servername: host } : {};
  return connect({ host, port, ...servername, ...(tls === true ? {} : tls) });
}

/** Wait for one event of the socket, and for everything that may come instead. */
async function next<T>(
  socket: Socket,
  event: string,
  limit: AbortSignal,
  address: Address,
): Promise<T> {
  const cleanUps: (() => void)[] = [];
  try {
    return await new Promise<T>((resolve, reject) => {
      const fail = (cause: unknown) => reject(unreachable(address, cause));
      const on = (name: string, listener: (value: T) => void) => {
        const called = listener as (...args: unknown[]) => void;
        socket.once(name, called);
        cleanUps.push(() => socket.off(name, called));
      };
      on(event, resolve);
      on("error", fail);
      on("close", () => fail(new Error("the connection was closed")));
      const late = () => fail(new Error("no answer in time"));
      if (limit.aborted) late();
      limit.addEventListener("abort", late);
      cleanUps.push(() => limit.removeEventListener("abort", late));
    });
  } finally {
    for (const cleanUp of cleanUps) cleanUp();
  }
}

function opened(socket: Socket, event: string, limit: AbortSignal, address: Address): Promise<void> {
  return next(socket, event, limit, address);
}

function unreachable({ host, port }: Address, cause: unknown): PenstockError {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const isTls = /^(ERR_(TLS|SSL)|CERT|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code);
  const said = message || code || String(cause);
  return new PenstockError(isTls ? "tls" : "unreachable", `${host}:${port}: ${said}`, { cause });
}

async function logIn(
  socket: Socket,
  credentials: Credentials,
  limit: AbortSignal,
  address: Address,
): Promise<void> {
  socket.write(encodeRequest("Authenticate", named(credentials), 1));
  const reader = new FrameReader();
  for (;;) {
    const [response] = reader.receive(await next<Buffer>(socket, "data", limit, address));
    if (response === undefined) continue;
    socket.pause(); // until its owner listens
    if (response.kind === "Ok") return;
    if (response.kind !== "Error") throw protocolError("no answer to a login");
    if (response.body.message.includes(UNKNOWN_KIND)) return;
    throw refusal(response.body);
  }
}

function named(credentials: Credentials): { user?: string; secret?: Uint8Array; token?: string } {
  if ("token" in credentials) return { token: credentials.token };
  const { user, password } = credentials;
  return { user, secret: typeof password === "string" ? Buffer.from(password) : password };
}
