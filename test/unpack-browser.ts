// Unpacks Chromium, its fonts, and the libraries that some systems lack into TMPDIR. Prints the path of the program.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import chromium, { inflate } from '@sparticuz/chromium';

const packed = join(dirname(fileURLToPath(import.meta.resolve('@sparticuz/chromium'))), '../bin');
await inflate(join(packed, 'al2023.tar.br'));
console.log(await chromium.executablePath());
