import { expect, test } from 'vitest';
import { type Block, blocksOf } from './blocks.ts';
import { Reader } from './reader.ts';

test('the first program of the README runs in an empty project, and prints a completed job with its result', async () => {
  const block = blocksOf('README.md').find(({ language }) => language === 'ts') as Block;
  const { code, stdout, stderr } = (await new Reader().follow(block)) as { code: number; stdout: string; stderr: string };
  const [, promised] = block.code.match(/console\.log\(.*\); \/\/ (.+)$/m) as string[];
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${promised}\n`, stderr: '' });
});
