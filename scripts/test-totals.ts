// Prints the closing line of .ci/run from vitest's JSON report.
import { readFileSync } from 'node:fs';

type Report = {
  numPassedTests: number;
  numFailedTests: number;
  testResults: { status: string; assertionResults: { status: string }[] }[];
};

const [reportPath] = process.argv.slice(2);
if (reportPath === undefined) throw new Error('usage: test-totals.ts REPORT.json');
const report: Report = JSON.parse(readFileSync(reportPath, 'utf8'));
// A file that failed to load, or whose hooks failed, has no failed test but counts as a failure.
const brokenFiles = report.testResults.filter(
  (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
);
console.log(`${report.numPassedTests} passed, ${report.numFailedTests + brokenFiles.length} failed`);
