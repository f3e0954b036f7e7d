// The command that starts a worker, with everything that it may do.
import { join } from 'node:path'
import type { Command, OsUser } from '#src/kernel/child-processes/process.ts'
import { networkFlags } from './network.ts'

export interface WorkerPaths {
  /** The directory of this worker alone. */
  directory: string
  /** Where the worker serves calls as frames. */
  link: string
  /** Where the worker serves WebSockets. */
  socket: string
  /** Where the platform serves the project's own API to the worker. */
  platformSocket: string
  temporary: string
  /** What Deno caches. */
  cache: string
}

export const pathsIn = (directory: string): WorkerPaths => ({
  directory,
  link: join(directory, 'l'),
  socket: join(directory, 's'),
  platformSocket: join(directory, 'p'),
  temporary: join(directory, 'tmp'),
  cache: join(directory, 'deno'),
})

export interface WorkerOptions {
  deno: string
  /** The host program, as a path. */
  host: string
  paths: WorkerPaths
  /** What the worker may read besides its own directory. */
  codeDir: string
  user: OsUser | undefined
  memoryMb: number
  baseUrl: string
  outboundAllow: readonly string[]
  /** Hosts that the project allows; undefined: all public ones. */
  hosts: readonly string[] | undefined
}

const megabyte = 1024 * 1024
/** Data of Deno itself after its start: its code, and stacks of threads that are mostly never used. */
const ownDataMb = 96
const maxOpenFiles = 1024
/** A single file that a worker writes. */
const maxFileMb = 64
/** Requests of the platform come first. */
export const niceness = 5

export function workerCommand(options: WorkerOptions): Command {
  const { paths, memoryMb } = options
  const { link, socket, platformSocket, temporary } = paths
  const flags = [
    'run',
    '--no-prompt',
    '--quiet',
    '--no-check',
    '--cached-only',
    '--no-remote',
    '--no-lock',
    '--no-config',
    '--node-modules-dir=manual',
    '--unstable-no-legacy-abort',
    `--v8-flags=--max-old-space-size=${memoryMb}`,
    `--allow-read=${[options.codeDir, temporary, link, socket, platformSocket].join(',')}`,
    `--allow-write=${[temporary, link, socket, platformSocket].join(',')}`,
    '--allow-env',
    ...networkFlags(options.outboundAllow, options.hosts, [link, socket, platformSocket]),
    // For the confinement. The host gives it back before it loads any code.
    ...(process.platform === 'linux' ? ['--allow-ffi'] : []),
  ]
  const settings = JSON.stringify({
    linkSocket: link,
    socket,
    platformSocket,
    baseUrl: options.baseUrl,
    codeDir: options.codeDir,
    temporary,
    limits: {
      dataBytes: (ownDataMb + memoryMb) * megabyte,
      fileBytes: maxFileMb * megabyte,
      openFiles: maxOpenFiles,
    },
  })
  return {
    binary: options.deno,
    args: [...flags, options.host, settings],
    env: {
      PATH: '/usr/bin:/bin',
      NO_COLOR: '1',
      DENO_NO_UPDATE_CHECK: '1',
      DENO_NO_PACKAGE_JSON: '1',
      DENO_DIR: paths.cache,
      TMPDIR: temporary,
      HOME: temporary,
    },
    cwd: temporary,
    stdio: ['pipe', 'pipe', 'pipe'],
    user: options.user,
    detached: true,
  }
}
