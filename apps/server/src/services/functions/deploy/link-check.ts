// Parses and links all modules of a function as the worker will, without running them: modules run in the order of their
// imports, after all of them are linked, and the first one throws.
import { rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { DenoStopped, runDeno } from './deno-command.ts'
import { invalid } from './files.ts'

export interface LinkCheck {
  deno: string
  user: OsUser | undefined
  /** The directory of the deployment. */
  directory: string
  /** URLs of the function's own modules. */
  modules: readonly string[]
  /** The directory with `node_modules`. */
  packages: string | undefined
  signal: AbortSignal
}

const mark = 'all modules are linked'
const limits = { timeoutMs: 30_000, maxOutputBytes: 256 * 1024 }

export async function checkLinks({
  deno,
  user,
  directory,
  modules,
  packages,
  signal,
}: LinkCheck): Promise<void> {
  const build = join(directory, 'code', 'build')
  const link = join(build, 'node_modules')
  await writeFile(join(directory, 'stop.js'), `throw new Error(${JSON.stringify(mark)})\n`)
  const imports = ['./stop.js', ...modules].map(each => `import ${JSON.stringify(each)}\n`)
  await writeFile(join(directory, 'check.js'), imports.join(''))
  if (packages !== undefined) await symlink(join(packages, 'node_modules'), link)
  try {
    const flags = [
      '--quiet',
      '--no-prompt',
      '--no-check',
      '--cached-only',
      '--no-remote',
      '--no-lock',
      '--no-config',
    ]
    const { stderr } = await runDeno({
      program: deno,
      args: ['run', ...flags, '--node-modules-dir=manual', join(directory, 'check.js')],
      directory,
      user,
      env: { DENO_NO_PACKAGE_JSON: '1' },
      signal,
      ...limits,
    })
    if (!stderr.includes(mark)) throw invalid(problemIn(stderr, pathToFileURL(`${build}/`).href))
  } catch (error) {
    if (error instanceof DenoStopped) throw invalid('The code could not be checked in time')
    throw error
  } finally {
    await rm(link, { force: true })
  }
}

/** `index.ts:3:5: Identifier 'a' has already been declared` */
function problemIn(output: string, root: string): string {
  // Names in it may be as long as the code.
  const stderr = output.slice(0, 16_000)
  const message =
    /error: (?:Uncaught )?(?:\(in promise\) )?(?:SyntaxError: )?(.*)/.exec(stderr)?.[1] ??
    'The code cannot be loaded'
  const at = stderr
    .split(root)
    .slice(1)
    .map(rest => /^[^\s)]+:\d+:\d+/.exec(rest)?.[0])
    .find(Boolean)
  // Paths of the platform are not shown.
  const shown = message
    .slice(0, 1000)
    .replaceAll(root, '')
    .replace(/(?:file:\/\/)?\/\S*\/node_modules\//g, '')
  const what = namesOtherFile(shown)
    ? 'A module imports a file that is not part of the function and its packages'
    : shown.slice(0, 500)
  return `${at === undefined ? '' : `${at}: `}${what}`
}

/** Whether such a file exists is nothing that a function may learn. */
const namesOtherFile = (message: string) =>
  message.includes('file://') ||
  (/^(?:Cannot find|Loading unprepared|Unable to load|Module not found|Is a directory)/.test(message) &&
    /["'\s]\//.test(message))
