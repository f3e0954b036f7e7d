// Installs the npm packages of a function into a `node_modules` of its own, from the registry of the operator. Install
// scripts are not run.
import { createHash } from 'node:crypto'
import { lstat, mkdir, opendir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { makeOwnDir } from '../place.ts'
import { holdsMore } from '../worker/usage.ts'
import { DenoStopped, runDeno } from './deno-command.ts'
import { invalid } from './files.ts'

export interface Packages {
  /** The directory that has `node_modules`. */
  directory: string
  /** Equal for equal versions of all packages. */
  hash: string
  /** `name@version` */
  names: string[]
}

export interface Registry {
  /** Undefined: Deno's own default. */
  url: string | undefined
  /** A file of certificates to trust besides those of the system. */
  certificates: string | undefined
}

export interface InstallInput {
  deno: string
  user: OsUser | undefined
  /** The directory of the deployment. */
  directory: string
  /** By the name under which the code imports them: `{ hono: 'npm:hono@4' }`. */
  wanted: Readonly<Record<string, string>>
  registry: Registry
  signal: AbortSignal
  timeoutMs?: number
}

const limits = { bytes: 200 * 1024 * 1024, entries: 50_000 }
const maxOutputBytes = 256 * 1024

export async function installPackages(input: InstallInput): Promise<Packages> {
  const { deno, user, directory, wanted, registry, signal, timeoutMs = 60_000 } = input
  const target = join(directory, 'packages')
  await makeOwnDir(target, user)
  await writeFile(join(target, 'package.json'), JSON.stringify({ dependencies: wanted }))
  const { isSuccess, stderr } = await runDeno({
    program: deno,
    args: ['install', '--quiet', '--node-modules-dir=auto'],
    directory: target,
    user,
    env: {
      DENO_TLS_CA_STORE: 'mozilla,system',
      ...(registry.url !== undefined && { NPM_CONFIG_REGISTRY: registry.url }),
      ...(registry.certificates !== undefined && { DENO_CERT: registry.certificates }),
    },
    timeoutMs,
    maxOutputBytes,
    signal,
    isTooLarge: () => holdsMore(target, { bytes: 2 * limits.bytes, entries: 2 * limits.entries }),
  }).catch(error => {
    if (error instanceof DenoStopped && error.reason === 'time')
      throw unreachable(`no answer in ${timeoutMs / 1000} s`)
    if (error instanceof DenoStopped && error.reason === 'disk')
      throw tooLarge(`more than ${limits.bytes / 1024 / 1024} MB or ${limits.entries} files`)
    throw error
  })
  if (!isSuccess) throw failureFrom(stderr, directory)
  const lock = JSON.parse(await readFile(join(target, 'deno.lock'), 'utf8')) as {
    npm?: Record<string, unknown>
  }
  for (const name of ['package.json', 'deno.lock', '.deno'])
    await rm(join(target, name), { recursive: true, force: true })
  await checkTree(join(target, 'node_modules'))
  return {
    directory: target,
    hash: createHash('sha256')
      .update(JSON.stringify([Object.entries(wanted).sort(), lock.npm]))
      .digest('hex'),
    names: Object.keys(lock.npm ?? {})
      .map(name => name.replace(/_.*$/, ''))
      .sort(),
  }
}

/** Deno prints what it tried, and under `Caused by:` why that failed. */
function failureFrom(output: string, directory: string): Error {
  // Texts of packages in it may be very long.
  const [stderr = ''] = output.slice(0, 8000).split('\nStack backtrace', 1)
  if (stderr.includes('has panicked')) return invalid('The packages could not be installed: Deno ended')
  const [what = '', cause = ''] = stderr
    .slice(Math.max(0, stderr.indexOf('error: ') + 'error: '.length))
    .replaceAll(directory, '')
    .replace(/\s+/g, ' ')
    .split('Caused by:')
    .map(text => text.trim())
  const reason = [what, cause].filter(Boolean).join(': ').slice(0, 300)
  if (/^npm package '.*' does not exist|^Could not find npm package/.test(what))
    return invalid(`A package was not found: ${reason}`)
  if (/error sending request|Bad response|timed out/i.test(cause)) return unreachable(reason)
  return invalid(`The packages could not be installed: ${reason}`)
}

const unreachable = (why: string) =>
  new Refusal('registry_unreachable', `The npm registry of the platform could not be reached: ${why}`, {
    hint: 'Nothing was deployed. Try again, or ask the operator to check PLATFORM_NPM_REGISTRY.',
  })

/** Bounds the size, and refuses links that lead out of the directory. */
async function checkTree(root: string): Promise<void> {
  await mkdir(root, { recursive: true })
  const found = { bytes: 0, entries: 0 }
  const left = [root]
  for (let directory = left.pop(); directory !== undefined; directory = left.pop()) {
    for await (const entry of await opendir(directory)) {
      const path = join(directory, entry.name)
      if (++found.entries > limits.entries) throw tooLarge(`more than ${limits.entries} files`)
      if (entry.isDirectory()) left.push(path)
      else if (entry.isSymbolicLink()) await checkLink(root, path)
      else if (entry.isFile()) found.bytes += (await lstat(path)).size
      else throw invalid('A package has a file of an unknown kind')
      if (found.bytes > limits.bytes) throw tooLarge(`more than ${limits.bytes / 1024 / 1024} MB`)
    }
  }
}

async function checkLink(root: string, path: string): Promise<void> {
  const target = await readlink(path)
  if (target.startsWith('/') || !resolve(dirname(path), target).startsWith(`${root}/`))
    throw invalid('A package has a link that leads out of it')
}

const tooLarge = (what: string) =>
  new Refusal('packages_too_large', `The npm packages of this function have ${what}`)
