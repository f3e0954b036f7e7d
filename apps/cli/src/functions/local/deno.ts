// The Deno program, and how it runs functions on this machine: with the host program of the platform, but with the network
// and packages of this machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Environment } from '../../environment.ts'
import { Failure } from '../../failure.ts'

export interface Deno {
  program: string
  host: string
  /** Of the process. Functions do not see it. */
  env: Record<string, string>
  /** A file of certificates to trust besides those of the system. */
  certificates: string | undefined
}

const packages: Readonly<Record<string, string>> = {
  'linux-x64': '@deno/linux-x64-glibc',
  'linux-arm64': '@deno/linux-arm64-glibc',
  'darwin-x64': '@deno/darwin-x64',
  'darwin-arm64': '@deno/darwin-arm64',
}
const serverPackage = new URL('../../../../server/package.json', import.meta.url)
const hostUrl = new URL('../../../../runtime/src/main.ts', import.meta.url)
/** What Deno needs to find its cache, the registry and a proxy. Tokens of the user are not passed on. */
const passedOn =
  /^(PATH|HOME|XDG_CACHE_HOME|DENO_\w+|NPM_CONFIG_\w+|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR))$/i

export function findDeno(environment: Environment): Deno {
  const host = fileURLToPath(hostUrl)
  if (!existsSync(host))
    throw new Failure(
      'runtime_missing',
      `The program that runs functions is missing: ${host} does not exist.`,
      'Run plinth in the repository.',
    )
  const known = Object.entries(environment).filter(
    ([name, value]) => passedOn.test(name) && value !== undefined,
  )
  return {
    program: denoProgram(`${process.platform}-${process.arch}`),
    host,
    env: {
      ...(Object.fromEntries(known) as Record<string, string>),
      NO_COLOR: '1',
      DENO_NO_UPDATE_CHECK: '1',
      DENO_NO_PACKAGE_JSON: '1',
    },
    certificates: environment['DENO_CERT'] || environment['NODE_EXTRA_CA_CERTS'] || undefined,
  }
}

export function denoProgram(platform: string): string {
  const name = packages[platform]
  if (!name)
    throw new Failure(
      'deno_missing',
      `Functions cannot run here: there is no Deno for ${platform}.`,
      'Deploy the function and call it with plinth functions invoke.',
    )
  try {
    return join(dirname(createRequire(serverPackage).resolve(`${name}/package.json`)), 'deno')
  } catch (cause) {
    throw new Failure(
      'deno_missing',
      `Functions cannot run here: the package ${name} is not installed.`,
      'Run npm ci in the repository, without --omit=optional.',
      cause,
    )
  }
}

/** The import map of a function, as flags of Deno. */
function configFlags(folder: string): string[] {
  const find = (...names: string[]) => names.map(name => join(folder, name)).find(path => existsSync(path))
  const config = find('deno.json', 'deno.jsonc')
  if (config !== undefined) return [`--config=${config}`]
  const map = find('import_map.json', 'import_map.jsonc')
  return ['--no-config', ...(map === undefined ? [] : [`--import-map=${map}`])]
}

const moduleFlags = ({ certificates }: Deno, folder: string) => [
  '--quiet',
  '--no-lock',
  '--node-modules-dir=none',
  ...configFlags(folder),
  ...(certificates === undefined ? [] : [`--cert=${certificates}`]),
]

/**
 * Loads the packages of a function into the cache of the user. The host removes its environment before it loads a function,
 * and then Deno would know neither the registry nor the proxy. Returns the message of Deno if it fails.
 */
export async function cacheModules(deno: Deno, folder: string, entrypoint: string): Promise<string | null> {
  const args = ['cache', ...moduleFlags(deno, folder), entrypoint]
  const child = spawn(deno.program, args, { cwd: folder, env: deno.env, stdio: ['ignore', 'ignore', 'pipe'] })
  const [stderr, [code]] = await Promise.all([
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  return code === 0 ? null : stderr.replace(/^error: /, '').trim()
}

export interface WorkerPlace {
  /** The folder of the function. */
  folder: string
  /** The folder of all functions, which the function may read. */
  root: string
  /** Where it answers HTTP. */
  socket: string
  /** Where it is connected to the local server. */
  linkSocket: string
  temporary: string
}

const memoryMb = 256
const megabyte = 1024 * 1024
/** Beside its memory, Deno itself takes data for stacks of threads. */
const limits = { dataBytes: (memoryMb + 320) * megabyte, fileBytes: 1024 * megabyte, openFiles: 1024 }

/** The same rights as on the platform, except that the whole network and packages from anywhere may be used. */
export function workerArguments(
  deno: Deno,
  { folder, root, socket, linkSocket, temporary }: WorkerPlace,
): string[] {
  return [
    'run',
    ...moduleFlags(deno, folder),
    '--no-prompt',
    '--no-check',
    '--unstable-no-legacy-abort',
    `--v8-flags=--max-old-space-size=${memoryMb}`,
    `--allow-read=${[root, temporary, socket, linkSocket].map(asListed).join(',')}`,
    `--allow-write=${[temporary, socket, linkSocket].map(asListed).join(',')}`,
    '--allow-env',
    '--allow-net',
    '--allow-import',
    // For the seccomp filter of the host, which gives this right back before it loads any code.
    ...(process.platform === 'linux' ? ['--allow-ffi'] : []),
    deno.host,
    JSON.stringify({ socket, linkSocket, baseUrl: '', codeDir: root, temporary, limits }),
  ]
}

/** In a list of paths, Deno reads two commas as one that is part of a path. */
const asListed = (path: string) => path.replaceAll(',', ',,')
