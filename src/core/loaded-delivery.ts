/** What the ledger hands to the one who delivers. */
export type LoadedDelivery =
  | {
      readonly kind: 'ready';
      readonly deliveryId: string;
      readonly messageId: string;
      readonly url: string;
      readonly body: Uint8Array;
      readonly secrets: readonly Uint8Array[];
      readonly createdAtMs: number;
      /** By the clock of the database. */
      readonly nowMs: number;
    }
  /** The target is gone or disabled, or another job delivers: there is nothing to do here. */
  | { readonly kind: 'gone' };
