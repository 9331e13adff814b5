import { AppError } from '../../core/errors.ts';
import { PermanentError } from '../../core/failure.ts';
import { encodeOutput, isTooLarge, type Payload } from '../../core/payload.ts';

/** Encodes what a handler returned. Throws if it cannot be stored; another attempt would not help. */
export function encodeResult(value: unknown, { maxBytes, prefix = '' }: { maxBytes: number; prefix?: string }): Payload {
  const encoded = encodeOutput(value, maxBytes);
  if (encoded.ok) return encoded.payload;
  const { issue } = encoded;
  if (!isTooLarge(issue)) throw new AppError('NOT_SERIALIZABLE', { message: `${prefix}${issue.message}`, details: [issue] });
  throw new PermanentError(
    `The result of the handler is larger than ${maxBytes} bytes. Store it elsewhere and return a reference, or raise limits.result_size in the configuration (maxResultBytes of Millrace.open).`,
    { code: 'RESULT_TOO_LARGE' },
  );
}
