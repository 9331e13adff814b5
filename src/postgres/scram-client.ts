import pg from 'pg';

/** The part of a connection of node-postgres that reports how the server wants to know the client. */
type Wire = {
  prependListener(event: string, listener: () => void): void;
  emit(event: 'error', error: Error): void;
  stream: { destroy(): void };
};

/** As libpq spells it. In the address of a server it says that no other way to log in is good enough. */
export const REQUIRE_SCRAM = 'require_auth=scram-sha-256';

/**
 * A client that gives its password to no server that does not know it already, if the address demands that. A program of another user
 * could listen where our server did, and would otherwise get the password by asking for it, or get the data by asking for nothing.
 */
export class ScramClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    const address = typeof config === 'string' ? config : config?.connectionString;
    if (address?.includes(REQUIRE_SCRAM)) requireScram((this as unknown as { connection: Wire }).connection);
  }
}

function requireScram(connection: Wire): void {
  let isProven = false;
  const refuse = () => {
    connection.stream.destroy();
    connection.emit('error', new Error('the server at this address does not prove that it knows the password, so nothing was sent to it'));
  };
  // Before the listeners of node-postgres, which would send the password. Nothing leaves a destroyed stream.
  connection.prependListener('authenticationCleartextPassword', refuse);
  connection.prependListener('authenticationMD5Password', refuse);
  connection.prependListener('authenticationSASLFinal', () => {
    isProven = true;
  });
  connection.prependListener('authenticationOk', () => {
    if (!isProven) refuse();
  });
}
