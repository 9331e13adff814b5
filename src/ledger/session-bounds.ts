/**
 * Options of every session of ours. A process that is frozen, or behind a broken network, acknowledges nothing of an answer that is
 * sent to it, and no timeout of a statement ends a session that waits for that: it would keep its locks, its snapshot and its
 * place in the queue of notifications for as long as the process stands still. The server gives such a session up after as long as
 * whoever waits for a lock of it is ready to wait, and one that is idle and cannot be reached after about a minute. Sockets of the
 * file system know none of this.
 */
export const SESSION_BOUNDS = '-c tcp_user_timeout=5000 -c tcp_keepalives_idle=60 -c tcp_keepalives_interval=10';
