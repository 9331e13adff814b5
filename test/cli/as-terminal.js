// Loaded before the program: makes its pipes look like a terminal. No tool for that is on every machine.
for (const stream of [process.stdin, process.stdout]) stream.isTTY = true;
process.stdin.setRawMode = () => process.stdin;
Object.assign(process.stdout, { columns: 80, rows: 24 });
