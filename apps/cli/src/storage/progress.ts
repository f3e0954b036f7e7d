// One line on stderr that says how far a transfer is, for people only.
import { bytes, clean, duration } from '../print.ts'

export interface Standing {
  label: string
  files: { done: number; total: number }
  bytes: { done: number; total: number }
  /** Lately, or from begin to end when it has ended. */
  bytesPerSecond: number
  seconds: number
  hasEnded: boolean
}

const longestFacts = ' 99%  999.9 MB of 999.9 MB  999.9 MB/s  59m 59s left'.length

/** Fits into the columns: the bar gives way first, then the label, then the line is cut. */
export function progressLine(standing: Standing, columns: number): string {
  const { files, hasEnded } = standing
  const share = shareOf(standing)
  const label = files.total === 1 ? clean(standing.label) : `${files.done} of ${files.total} files`
  const facts = factsOf(standing, share)
  const room = columns - 1 - facts.length - 4
  // As for long facts, so that the bar does not grow and shrink with them.
  const barRoom = Math.min(30, room - label.length, columns - 5 - longestFacts - label.length)
  if (barRoom >= 5) return `${label}  ${bar(share, barRoom)}  ${facts}`
  const short = label.length > room ? `…${label.slice(label.length - Math.max(0, room - 1))}` : label
  return (room >= 8 || hasEnded ? `${short}  ${facts}` : facts).slice(0, Math.max(0, columns - 1))
}

/** Empty files count as bytes do not, so that a folder of them does not stay at 0 %. */
function shareOf({ bytes: { done, total }, files, hasEnded }: Standing): number {
  if (hasEnded && files.done === files.total) return 1
  const share = total > 0 ? done / total : files.done / Math.max(1, files.total)
  return Math.min(1, Math.max(0, share))
}

function factsOf(standing: Standing, share: number): string {
  const { done, total } = standing.bytes
  // Never 100 % before it is over.
  const percent = `${String(Math.floor(share * 100) - (share === 1 && !standing.hasEnded ? 1 : 0)).padStart(3)}%`
  const speed = `${bytes(Math.round(standing.bytesPerSecond))}/s`
  if (standing.hasEnded) return `${percent}  ${bytes(done)}  ${speed}  in ${elapsed(standing.seconds)}`
  const left =
    standing.bytesPerSecond > 0 ? `${duration((total - done) / standing.bytesPerSecond)} left` : 'waiting'
  return `${percent}  ${bytes(done)} of ${bytes(total)}  ${speed}  ${left}`
}

function bar(share: number, width: number): string {
  const full = Math.round(share * width)
  return '█'.repeat(full) + '░'.repeat(width - full)
}

export const elapsed = (seconds: number): string =>
  seconds < 10 ? `${seconds.toFixed(1)}s` : duration(seconds)

/** What is written to; `process.stderr` in life. */
export interface Terminal {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export interface Progress {
  /** How far one more file is; it may also go back, after a cut connection. */
  file(): { at(position: number): void; done(): void }
  /** Says something without the bar in between. */
  aside(say: () => void): void
  /** Leaves the last line standing. */
  end(): void
}

export interface Whole {
  label: string
  files: number
  bytes: number
}

const redrawMilliseconds = 100
const silent: Progress = {
  file: () => ({ at() {}, done() {} }),
  aside: say => say(),
  end() {},
}

export function openProgress(whole: Whole, terminal: Terminal = process.stderr): Progress {
  if (!terminal.isTTY) return silent
  const begun = performance.now()
  const speed = speedometer(begun)
  let filesDone = 0
  let bytesDone = 0
  const draw = (hasEnded: boolean) => {
    const now = performance.now()
    const seconds = (now - begun) / 1000
    const standing = {
      label: whole.label,
      files: { done: filesDone, total: whole.files },
      bytes: { done: bytesDone, total: whole.bytes },
      bytesPerSecond: hasEnded ? bytesDone / Math.max(seconds, 0.001) : speed(bytesDone, now),
      seconds,
      hasEnded,
    }
    terminal.write(`\r${progressLine(standing, terminal.columns || 80)}\x1b[K`)
  }
  const timer = setInterval(draw, redrawMilliseconds, false)
  return {
    file() {
      let position = 0
      return {
        at(now) {
          bytesDone += now - position
          position = now
        },
        done: () => void filesDone++,
      }
    },
    aside(say) {
      terminal.write('\r\x1b[K')
      say()
    },
    end() {
      clearInterval(timer)
      draw(true)
      terminal.write('\n')
    },
  }
}

/** Of the last three seconds, so that a stall shows and a burst is soon forgotten. */
function speedometer(begun: number): (done: number, now: number) => number {
  const samples = [{ at: begun, done: 0 }]
  return (done, now) => {
    samples.push({ at: now, done })
    while (samples.length > 2 && samples[1]!.at < now - 3000) samples.shift()
    const [oldest] = samples
    return Math.max(0, (done - oldest!.done) / Math.max(0.001, (now - oldest!.at) / 1000))
  }
}
