// The one build, for `import`: there is never a second copy of its classes.
import penstock from "./dist/index.js";

export const { Client, DeadLetter, PenstockError, Retry, Slice, connect, openEnvelope, signEnvelope, verifySignature } = penstock;
