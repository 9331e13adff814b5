export type FaultCode =
  | 'DNS'
  | 'CONNECT'
  | 'TLS'
  | 'TIMEOUT'
  | 'IDLE'
  | 'RESET'
  | 'PROTOCOL'
  | 'TOO_LARGE'
  | 'TOO_MANY_REDIRECTS'
  | 'PROXY'
  | 'HELD'
  | 'ABORTED';

/** Why an exchange failed. It is an exception inside this room; callers get a value. */
export class EgressFault extends Error {
  override readonly name = 'EgressFault';
  readonly code: FaultCode;
  /** A proxy works, but refused or could not reach this target. */
  readonly blamesTarget: boolean;

  constructor(code: FaultCode, message: string, { blamesTarget = false } = {}) {
    super(message);
    this.code = code;
    this.blamesTarget = blamesTarget;
  }
}

const CUT_OFF: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET', 'ETIMEDOUT']);

/** `code` applies to errors that are not faults yet. */
export function faultFrom(error: unknown, code: FaultCode): EgressFault {
  if (error instanceof EgressFault) return error;
  return new EgressFault(code, error instanceof Error ? error.message : String(error));
}

/** For errors after the request was sent: the peer closed the connection, or violated HTTP. */
export function exchangeFault(error: unknown): EgressFault {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return faultFrom(error, CUT_OFF.has(code) ? 'RESET' : 'PROTOCOL');
}
