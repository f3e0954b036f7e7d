import { readFileSync } from 'node:fs'

/** The version of this release. All packages have the same one. */
export const version: string = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version
