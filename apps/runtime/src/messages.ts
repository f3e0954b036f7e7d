// Messages to the platform: one JSON object per line on the standard output. The platform trusts none of them further than
// the project itself.
import { deno } from './deno.ts'

export type Level = 'debug' | 'info' | 'log' | 'warn' | 'error'

export type Message =
  | { readonly type: 'ready' }
  | {
      readonly type: 'log'
      readonly level: Level
      readonly message: string
      readonly project?: string
      readonly name?: string
      readonly version?: string
      readonly requestId?: string
    }
  /** The number of promises of `waitUntil` that are not settled. */
  | { readonly type: 'background'; readonly pending: number }

const encoder = new TextEncoder()
const write = deno.stdout.writeSync.bind(deno.stdout)
const stringify = JSON.stringify

export function send(message: Message): void {
  let bytes = encoder.encode(`${stringify(message)}\n`)
  while (bytes.length > 0) bytes = bytes.subarray(write(bytes))
}
