const SECRET_NAME =
  /pass(?:word|wd|phrase|code)|(?:^|[_.-])(?:pass|pwd|pin|auth)(?:$|[_.-])|secret|token|api[-_.]?key|authorization|cookie|credential|private[-_.]?key|access[-_.]?key|session[-_.]?id|signature|bearer|^sig$/i;

export const MASKED = '[masked]';

/** Whether a member with this name probably contains a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}
