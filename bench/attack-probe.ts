// The probe of attacks.ts: a process of its own that reads one row of another project every 20 ms, whether or not the
// reads before have been answered, and reports how long they took. Its parent says when a window begins and ends.
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

const everyMs = 20
const agent = new Agent({ keepAlive: true })
const underWay = new Set<Promise<void>>()
let window: Window = { reads: 0, failed: 0, maxMs: 0 }
let target: ProbeTarget | undefined

function read({ url, headers }: ProbeTarget): Promise<void> {
  const since = performance.now()
  return new Promise<void>(resolve => {
    const end = (isRead: boolean) => {
      window.reads++
      if (!isRead) window.failed++
      window.maxMs = Math.max(window.maxMs, performance.now() - since)
      resolve()
    }
    get(url, { agent, headers }, answer => {
      answer.resume()
      answer.once('end', () => end(answer.statusCode === 200))
      answer.once('error', () => end(false))
    }).once('error', () => end(false))
  })
}

setInterval(() => {
  if (!target) return
  const reading = read(target).finally(() => underWay.delete(reading))
  underWay.add(reading)
}, everyMs)

process.on('message', async (told: { target?: ProbeTarget; end?: true }) => {
  if (told.target) target = told.target
  if (!told.end) window = { reads: 0, failed: 0, maxMs: 0 }
  else {
    // A read that is still waiting belongs to the window in which it was sent.
    await Promise.all(underWay)
    process.send!(window)
  }
})
process.on('disconnect', () => process.exit())
