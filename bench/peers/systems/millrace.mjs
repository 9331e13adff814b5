export { open } from '../../driver.ts';
