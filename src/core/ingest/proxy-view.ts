/** A proxy pool as operators see it. */
export type PoolView = {
  readonly name: string;
  readonly healthy: boolean;
  readonly paused: boolean;
  readonly addresses: readonly {
    /** Without credentials. */
    readonly address: string;
    readonly score: number;
    readonly ejectedUntil: Date | null;
    readonly successes: number;
    readonly failures: number;
  }[];
};
