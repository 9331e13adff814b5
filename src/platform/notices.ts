/** The output of the platform: text lines for people, or JSON lines for programs. */
export type Notices = {
  readonly json: boolean;
  readonly verbose: boolean;
  event(data: { event: string } & Record<string, unknown>, text: string): void;
  note(text: string): void;
};
