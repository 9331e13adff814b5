/** Neighbours in line share a row of `ready`, so many at most that one can be taken from cheaply. */
export const RUN_OF_NEIGHBOURS = 'seq >> 7';

/** A run begins no further before one of its jobs than this. */
export const LONGEST_RUN = 128;
