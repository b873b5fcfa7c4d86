/**
 * Cuts the bytes of one connection into responses.
 *
 * A frame is a length of 4 bytes and a message. Chunks of a frame that is not complete are kept in
 * a list and joined once, when its last byte is there: a large frame is not copied again and again.
 */

import { decodeResponse, type Response } from "./codec";
import { protocolError } from "./errors";

const FRAME_BYTES_MAX = 64 * 1024 * 1024;

export class FrameReader {
  private chunks: Buffer[] = [];
  private held = 0;
  private wanted = 4; // held bytes that are worth another look

  /** Return the responses that are complete now. */
  receive(chunk: Buffer): Response[] {
    const responses: Response[] = [];
    if (this.held + chunk.length < this.wanted) {
      this.keep(chunk);
      return responses;
    }
    const bytes = this.held === 0 ? chunk : Buffer.concat([...this.chunks, chunk]);
    this.chunks = [];
    this.held = 0;
    this.wanted = 4;
    let at = 0;
    while (bytes.length - at >= 4) {
      const size = bytes.readUInt32BE(at);
      if (size > FRAME_BYTES_MAX) throw protocolError(`a frame of ${size} bytes`);
      const limit = at + 4 + size;
      if (limit > bytes.length) {
        this.wanted = 4 + size;
        break;
      }
      responses.push(decodeResponse(bytes, at + 4, limit));
      at = limit;
    }
    if (at < bytes.length) this.keep(bytes.subarray(at));
    return responses;
  }

  private keep(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.held += chunk.length;
  }
}
