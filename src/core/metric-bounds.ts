/** The upper bounds of histograms of seconds, and of attempts. Larger values are in one more bucket. They never change: sums depend on them. */
export const SECONDS_BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 1_800, 7_200,
] as const;
export const ATTEMPTS_BOUNDS = [1, 2, 3, 4, 5, 7, 10, 20, 50] as const;
