import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openProgress, type ProgressState, progressLine } from './progress.ts'

const halfway: ProgressState = {
  label: 'big.bin',
  files: { done: 0, total: 1 },
  bytes: { done: 9_000_000, total: 20_000_000 },
  bytesPerSecond: 2_000_000,
  seconds: 4.5,
  hasEnded: false,
}

test('progress: the line has name, bar, percentage, bytes, speed and remaining time', () => {
  assert.equal(
    progressLine(halfway, 100),
    `big.bin  ${'█'.repeat(14)}${'░'.repeat(16)}   45%  9.0 MB of 20.0 MB  2.0 MB/s  5s left`,
  )
})

test('progress: several files are counted instead of named', () => {
  const line = progressLine({ ...halfway, files: { done: 3, total: 12 } }, 100)
  assert.match(line, /^3 of 12 files {2}█/)
})

test('progress: the line fits the terminal; first the bar is dropped, then the name', () => {
  for (let columns = 1; columns < 130; columns++)
    assert.ok(progressLine(halfway, columns).length < columns, String(columns))
  assert.match(progressLine(halfway, 58), /^big\.bin {3}45%/)
  assert.match(progressLine({ ...halfway, label: `${'x'.repeat(90)}end.bin` }, 70), /^…x*end\.bin {3}45%/)
  assert.match(progressLine(halfway, 45), /^ 45% {2}9\.0 MB of/)
})

test('progress: 100 % appears only at the end, with average speed and total time', () => {
  const last = { ...halfway, bytes: { done: 20_000_000, total: 20_000_000 } }
  assert.match(progressLine(last, 100), / 99% {2}20\.0 MB of 20\.0 MB/)
  const ended = {
    ...last,
    files: { done: 1, total: 1 },
    hasEnded: true,
    bytesPerSecond: 2_500_000,
    seconds: 8,
  }
  assert.equal(progressLine(ended, 100), `big.bin  ${'█'.repeat(30)}  100%  20.0 MB  2.5 MB/s  in 8.0s`)
})

test('progress: a stall shows waiting instead of a remaining time, and empty files count', () => {
  assert.match(progressLine({ ...halfway, bytesPerSecond: 0 }, 100), / 0 B\/s {2}waiting$/)
  const empty = { ...halfway, files: { done: 1, total: 4 }, bytes: { done: 0, total: 0 }, bytesPerSecond: 0 }
  assert.match(progressLine(empty, 100), / 25%/)
})

test('progress: control characters in names do not reach the terminal', () => {
  assert.ok(!progressLine({ ...halfway, label: 'evil\x1b[2J' }, 100).includes('\x1b'))
})

function terminal(isTTY: boolean) {
  const written: string[] = []
  return { isTTY, columns: 80, written, write: (text: string) => void written.push(text) }
}

test('progress: nothing is drawn without a terminal', t => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const pipe = terminal(false)
  const progress = openProgress({ label: 'a', files: 1, bytes: 10 }, pipe)
  progress.file().at(5)
  t.mock.timers.tick(1000)
  progress.end()
  assert.deepEqual(pipe.written, [])
})

test('progress: redraws one line ten times a second and keeps the last one', t => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const screen = terminal(true)
  const progress = openProgress({ label: 'a.bin', files: 2, bytes: 2000 }, screen)
  const [one, two] = [progress.file(), progress.file()]
  for (let i = 0; i < 350; i++) {
    one.at(Math.random() * 1000)
    t.mock.timers.tick(1)
  }
  assert.equal(screen.written.length, 3)
  for (const file of [one, two]) {
    file.at(1000)
    file.done()
  }
  progress.interrupt(() => screen.write('warning: something\n'))
  progress.end()
  const text = screen.written.join('').replaceAll('\x1b[K', '')
  // Everything but the warning and the last line is overwritten.
  assert.equal(text.split('\n').length, 3)
  assert.match(text, /\rwarning: something\n\r2 of 2 files {2}█+ {2}100% {2}2\.0 kB .*\n$/)
})
