// Functions written for other platforms use `/tmp`. Here it is the temporary directory of the worker: the methods of Deno
// that take a path get the real one. What they may do with it is decided afterwards, by Deno's permissions.
import { deno } from './deno.ts'

type Method = (...given: unknown[]) => unknown

const withOnePath = [
  'chmod',
  'create',
  'lstat',
  'mkdir',
  'open',
  'readDir',
  'readFile',
  'readLink',
  'readTextFile',
  'realPath',
  'remove',
  'stat',
  'truncate',
  'utime',
  'writeFile',
  'writeTextFile',
] as const
const withTwoPaths = ['copyFile', 'link', 'rename', 'symlink'] as const
const withOptions = ['makeTempDir', 'makeTempFile'] as const

/** `others` are directories that may really be below `/tmp`. */
export function provideTemporaryFiles(directory: string, others: readonly string[]): void {
  const real = [directory, ...others]
  const methods = deno as unknown as Record<string, Method>

  const mapped = (path: unknown): unknown => {
    const text = path instanceof URL && path.protocol === 'file:' ? decodeURIComponent(path.pathname) : path
    if (typeof text !== 'string' || !/^\/tmp(?:\/|$)/.test(text)) return path
    if (real.some(each => text === each || text.startsWith(`${each}/`))) return path
    return directory + text.slice('/tmp'.length)
  }
  const wrap = (name: string, change: (given: unknown[]) => unknown[]) => {
    const original = methods[name]?.bind(deno)
    if (original)
      Object.defineProperty(deno, name, { value: (...given: unknown[]) => original(...change(given)) })
  }
  const both = (name: string, change: (given: unknown[]) => unknown[]) => {
    wrap(name, change)
    wrap(`${name}Sync`, change)
  }

  for (const name of withOnePath) both(name, ([path, ...rest]) => [mapped(path), ...rest])
  for (const name of withTwoPaths) both(name, ([from, to, ...rest]) => [mapped(from), mapped(to), ...rest])
  for (const name of withOptions)
    both(name, ([options]) => {
      const { dir, ...others } = (options ?? {}) as { dir?: unknown }
      return [dir === undefined ? others : { ...others, dir: mapped(dir) }]
    })
}
