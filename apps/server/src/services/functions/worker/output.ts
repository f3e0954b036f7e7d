// Reads the lines that a worker prints. A worker that prints faster than the limit waits, and delays nobody else.
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

export interface OutputOptions {
  onLine(line: string): void
  /** In the long run. */
  bytesPerSecond?: number
}

const maxLineBytes = 64 * 1024
const burstSeconds = 2

export function readLines(pipe: Readable, { onLine, bytesPerSecond = 256 * 1024 }: OutputOptions): void {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  let budget = bytesPerSecond * burstSeconds
  let refilledAt = performance.now()

  function take(text: string): void {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) if (line !== '') onLine(line)
    while (rest.length > maxLineBytes) {
      onLine(rest.slice(0, maxLineBytes))
      rest = rest.slice(maxLineBytes)
    }
  }

  pipe.on('data', (chunk: Buffer) => {
    take(decoder.write(chunk))
    const now = performance.now()
    budget = Math.min(bytesPerSecond * burstSeconds, budget + ((now - refilledAt) / 1000) * bytesPerSecond)
    refilledAt = now
    budget -= chunk.length
    if (budget >= 0) return
    pipe.pause()
    setTimeout(() => pipe.resume(), (-budget / bytesPerSecond) * 1000).unref()
  })
  pipe.on('end', () => {
    if (rest !== '') onLine(rest)
    rest = ''
  })
}
