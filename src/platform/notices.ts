/** Where the platform says what happens: a line for people, or an object a line for programs. */
export type Notices = {
  readonly json: boolean;
  readonly verbose: boolean;
  event(data: { event: string } & Record<string, unknown>, text: string): void;
  note(text: string): void;
};
