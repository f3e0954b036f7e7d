// One line of progress on stderr, only in a terminal.
import { bytes, clean, duration } from '../print.ts'

export interface ProgressState {
  label: string
  files: { done: number; total: number }
  bytes: { done: number; total: number }
  /** Of the last three seconds; at the end, of the whole transfer. */
  bytesPerSecond: number
  seconds: number
  hasEnded: boolean
}

const longestFigures = ' 99%  999.9 MB of 999.9 MB  999.9 MB/s  59m 59s left'.length

/** Fits the line into the columns: first the bar is dropped, then the label is shortened, then the line is cut. */
export function progressLine(state: ProgressState, columns: number): string {
  const { files, hasEnded } = state
  const share = shareOf(state)
  const label = files.total === 1 ? clean(state.label) : `${files.done} of ${files.total} files`
  const figures = figuresOf(state, share)
  const room = columns - 1 - figures.length - 4
  // Reserves room for the longest figures, so that the width of the bar does not change with them.
  const barRoom = Math.min(30, room - label.length, columns - 5 - longestFigures - label.length)
  if (barRoom >= 5) return `${label}  ${bar(share, barRoom)}  ${figures}`
  const short = label.length > room ? `…${label.slice(label.length - Math.max(0, room - 1))}` : label
  return (room >= 8 || hasEnded ? `${short}  ${figures}` : figures).slice(0, Math.max(0, columns - 1))
}

/** Without bytes the files are counted, so that a folder of empty files does not stay at 0 %. */
function shareOf({ bytes: { done, total }, files, hasEnded }: ProgressState): number {
  if (hasEnded && files.done === files.total) return 1
  const share = total > 0 ? done / total : files.done / Math.max(1, files.total)
  return Math.min(1, Math.max(0, share))
}

function figuresOf(state: ProgressState, share: number): string {
  const { done, total } = state.bytes
  // Never 100 % before the end.
  const percent = `${String(Math.floor(share * 100) - (share === 1 && !state.hasEnded ? 1 : 0)).padStart(3)}%`
  const speed = `${bytes(Math.round(state.bytesPerSecond))}/s`
  if (state.hasEnded) return `${percent}  ${bytes(done)}  ${speed}  in ${elapsed(state.seconds)}`
  const left =
    state.bytesPerSecond > 0 ? `${duration((total - done) / state.bytesPerSecond)} left` : 'waiting'
  return `${percent}  ${bytes(done)} of ${bytes(total)}  ${speed}  ${left}`
}

function bar(share: number, width: number): string {
  const full = Math.round(share * width)
  return '█'.repeat(full) + '░'.repeat(width - full)
}

export const elapsed = (seconds: number): string =>
  seconds < 10 ? `${seconds.toFixed(1)}s` : duration(seconds)

export interface Terminal {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export interface Progress {
  /** Progress of one more file; the position may go back after a cut connection. */
  file(): { at(position: number): void; done(): void }
  /** Removes the line while something else is printed. */
  interrupt(print: () => void): void
  /** Draws the last line and keeps it. */
  end(): void
}

export interface Totals {
  label: string
  files: number
  bytes: number
}

const redrawMilliseconds = 100
const silent: Progress = {
  file: () => ({ at() {}, done() {} }),
  interrupt: print => print(),
  end() {},
}

export function openProgress(totals: Totals, terminal: Terminal): Progress {
  if (!terminal.isTTY) return silent
  const startedAt = performance.now()
  const speed = speedMeter(startedAt)
  let filesDone = 0
  let bytesDone = 0
  const draw = (hasEnded: boolean) => {
    const now = performance.now()
    const seconds = (now - startedAt) / 1000
    const state = {
      label: totals.label,
      files: { done: filesDone, total: totals.files },
      bytes: { done: bytesDone, total: totals.bytes },
      bytesPerSecond: hasEnded ? bytesDone / Math.max(seconds, 0.001) : speed(bytesDone, now),
      seconds,
      hasEnded,
    }
    terminal.write(`\r${progressLine(state, terminal.columns || 80)}\x1b[K`)
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
    interrupt(print) {
      terminal.write('\r\x1b[K')
      print()
    },
    end() {
      clearInterval(timer)
      draw(true)
      terminal.write('\n')
    },
  }
}

/** Over the last three seconds, so that a stall is visible and a burst has no lasting effect. */
function speedMeter(startedAt: number): (done: number, now: number) => number {
  const samples = [{ at: startedAt, done: 0 }]
  return (done, now) => {
    samples.push({ at: now, done })
    while (samples.length > 2 && samples[1]!.at < now - 3000) samples.shift()
    const [oldest] = samples
    return Math.max(0, (done - oldest!.done) / Math.max(0.001, (now - oldest!.at) / 1000))
  }
}
