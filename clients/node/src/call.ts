/** One request, over any number of connections, until it is answered, too late or aborted. */

import type { Response } from "./codec";
import { protocolError, refusal, type PenstockError } from "./errors";
import type { ResponseName } from "./schema";
import type { CallOptions } from "./types";

type Answer<M extends ResponseName> = Extract<Response, { kind: M }>["body"];

/** What a call asks, and what becomes of the answer. */
export interface Ask<M extends ResponseName, R> {
  /** Writes the request with this number. */
  encode: (requestId: number) => Buffer;
  expects: M;
  /** `isRepeated`: it may have been executed before. */
  read: (answer: Answer<M>, isRepeated: boolean) => R;
  /** Executing it twice does no harm, or is noticed by the broker (as if not given). */
  repeats?: boolean;
  /** Added to the time limit. */
  graceMs?: number;
  options?: CallOptions | undefined;
}

export type AnyAsk = Ask<ResponseName, unknown>;

export class Call {
  readonly promise: Promise<unknown>;
  readonly frame: Buffer;
  readonly deadline: number;
  isDone = false;
  isRepeated = false;
  overdueAt = Infinity; // when the answer should have come; known once it is sent
  private resolve!: (value: unknown) => void;
  private reject!: (error: unknown) => void;
  private onAbort: (() => void) | undefined;

  constructor(
    private readonly ask: AnyAsk,
    readonly number: number,
    now: number,
    readonly timeoutMs: number,
  ) {
    this.frame = ask.encode(number);
    this.deadline = now + timeoutMs + this.graceMs;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    if (ask.options?.signal !== undefined) this.watch(ask.options.signal);
  }

  get repeats(): boolean {
    return this.ask.repeats ?? true;
  }

  get graceMs(): number {
    return this.ask.graceMs ?? 0;
  }

  answered(response: Response): void {
    if (response.kind === "Error") this.fail(refusal(response.body));
    else if (response.kind !== this.ask.expects) {
      this.fail(protocolError(`${response.kind ?? "nothing"} instead of ${this.ask.expects}`));
    } else this.succeed(response.body);
  }

  fail(error: unknown): void {
    this.finish();
    this.reject(error);
  }

  /** Whether to ask another node: nothing was executed, or it may be executed twice. */
  goesElsewhere(error: PenstockError): boolean {
    return error.code === "not_leader" || (error.code === "no_quorum" && this.repeats);
  }

  private succeed(answer: Response["body"]): void {
    try {
      const result = this.ask.read(answer as never, this.isRepeated);
      this.finish();
      this.resolve(result);
    } catch (error) {
      this.fail(error);
    }
  }

  private watch(signal: AbortSignal): void {
    this.onAbort = () => this.fail(signal.reason);
    signal.addEventListener("abort", this.onAbort, { once: true });
  }

  private finish(): void {
    this.isDone = true;
    if (this.onAbort === undefined) return;
    this.ask.options?.signal?.removeEventListener("abort", this.onAbort);
    this.onAbort = undefined;
  }
}
