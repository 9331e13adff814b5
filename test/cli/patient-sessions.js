// Loaded before the program: its sessions may take as long to open as a busy machine needs. The program allows two seconds, which is a
// bound for its callers, and gives up if it cannot start within them. A server that is gone is still refused at once.
import pg from 'pg';

const PATIENCE_MS = 60_000;
const { connect } = pg.Client.prototype;
const { newClient } = pg.Pool.prototype;

pg.Client.prototype.connect = function (...given) {
  this._connectionTimeoutMillis = PATIENCE_MS;
  return connect.apply(this, given);
};
pg.Pool.prototype.newClient = function (...given) {
  this.options.connectionTimeoutMillis = PATIENCE_MS;
  return newClient.apply(this, given);
};
