// Sends what a function prints to the platform, with the call that printed it.
import { deno } from './deno.ts'
import { currentInvocation } from './invocation.ts'
import { type Level, send } from './messages.ts'

/** In UTF-16 units. The platform cuts a line at the same length. */
const maxLength = 8000

export function log(level: Level, message: string, invocation = currentInvocation()): void {
  send({
    type: 'log',
    level,
    message: message.length > maxLength ? `${message.slice(0, maxLength)}…` : message,
    ...(invocation && {
      project: invocation.project,
      name: invocation.name,
      version: invocation.version,
      ...(invocation.requestId !== '' && { requestId: invocation.requestId }),
    }),
  })
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : deno.inspect(value))

const hostDir = new URL('.', import.meta.url).href
let codeUrl = ''

/** The path of the code is not shown. */
export function setCodeDir(path: string): void {
  codeUrl = `file://${path}/`
}

/** An error with its causes, and the positions in the function's own files: `index.ts:3:5`. */
export const describeError = (error: unknown): string =>
  deno
    .inspect(error)
    .split('\n')
    .filter(line => !/^\s+at .*(?:ext:|node:)/.test(line) && !line.includes(hostDir))
    .join('\n')
    .replaceAll(codeUrl, '')
    .replace(/[0-9a-f-]{36}\/build\//g, '')

/** The other methods of the console, such as `table`, write to the standard output, whose lines are logged too. */
export function captureConsole(): void {
  const print =
    (level: Level) =>
    (...values: readonly unknown[]) =>
      log(level, values.map(textOf).join(' '))
  Object.assign(globalThis.console, {
    debug: print('debug'),
    info: print('info'),
    log: print('log'),
    warn: print('warn'),
    error: print('error'),
    trace: (...values: readonly unknown[]) => print('error')(...values, new Error('trace').stack ?? ''),
  })
}
