// The probe of attacks.ts: a separate process that reads one row of another project every 20 ms, also while earlier reads
// wait, and reports how long they took. Its parent starts and ends a measurement.
import { Agent, get } from 'node:http'

export interface ProbeTarget {
  url: string
  headers: Record<string, string>
}
export interface Window {
  reads: number
  failed: number
  maxMs: number
}

const intervalMs = 20
const agent = new Agent({ keepAlive: true })
const pendingReads = new Set<Promise<void>>()
let window: Window = { reads: 0, failed: 0, maxMs: 0 }
let target: ProbeTarget | undefined

function read({ url, headers }: ProbeTarget): Promise<void> {
  const since = performance.now()
  return new Promise<void>(resolve => {
    const finish = (isSuccess: boolean) => {
      window.reads++
      if (!isSuccess) window.failed++
      window.maxMs = Math.max(window.maxMs, performance.now() - since)
      resolve()
    }
    get(url, { agent, headers }, answer => {
      answer.resume()
      answer.once('end', () => finish(answer.statusCode === 200))
      answer.once('error', () => finish(false))
    }).once('error', () => finish(false))
  })
}

setInterval(() => {
  if (!target) return
  const pendingRead = read(target).finally(() => pendingReads.delete(pendingRead))
  pendingReads.add(pendingRead)
}, intervalMs)

process.on('message', async (message: { target?: ProbeTarget; end?: true }) => {
  if (message.target) target = message.target
  if (!message.end) window = { reads: 0, failed: 0, maxMs: 0 }
  else {
    // A read that is still waiting belongs to the measurement in which it was sent.
    await Promise.all(pendingReads)
    process.send!(window)
  }
})
process.on('disconnect', () => process.exit())
