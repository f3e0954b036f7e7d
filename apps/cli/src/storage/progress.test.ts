import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openProgress, progressLine, type Standing } from './progress.ts'

const halfway: Standing = {
  label: 'big.bin',
  files: { done: 0, total: 1 },
  bytes: { done: 9_000_000, total: 20_000_000 },
  bytesPerSecond: 2_000_000,
  seconds: 4.5,
  hasEnded: false,
}

test('the line has name, bar, share, bytes, speed and what remains', () => {
  assert.equal(
    progressLine(halfway, 100),
    `big.bin  ${'█'.repeat(14)}${'░'.repeat(16)}   45%  9.0 MB of 20.0 MB  2.0 MB/s  5s left`,
  )
})

test('several files are counted instead of named', () => {
  const line = progressLine({ ...halfway, files: { done: 3, total: 12 } }, 100)
  assert.match(line, /^3 of 12 files {2}█/)
})

test('it is never wider than the terminal: the bar goes first, then the name', () => {
  for (let columns = 1; columns < 130; columns++)
    assert.ok(progressLine(halfway, columns).length < columns, String(columns))
  assert.match(progressLine(halfway, 58), /^big\.bin {3}45%/)
  assert.match(progressLine({ ...halfway, label: `${'x'.repeat(90)}end.bin` }, 70), /^…x*end\.bin {3}45%/)
  assert.match(progressLine(halfway, 45), /^ 45% {2}9\.0 MB of/)
})

test('100 % is for what has ended; that line tells the whole speed and time', () => {
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

test('a stall waits instead of promising a time, and empty files make progress', () => {
  assert.match(progressLine({ ...halfway, bytesPerSecond: 0 }, 100), / 0 B\/s {2}waiting$/)
  const empty = { ...halfway, files: { done: 1, total: 4 }, bytes: { done: 0, total: 0 }, bytesPerSecond: 0 }
  assert.match(progressLine(empty, 100), / 25%/)
})

test('a name cannot steer the terminal', () => {
  assert.ok(!progressLine({ ...halfway, label: 'evil\x1b[2J' }, 100).includes('\x1b'))
})

function terminal(isTTY: boolean) {
  const written: string[] = []
  return { isTTY, columns: 80, written, write: (text: string) => void written.push(text) }
}

test('nothing at all is drawn where nobody watches', async () => {
  const pipe = terminal(false)
  const progress = openProgress({ label: 'a', files: 1, bytes: 10 }, pipe)
  progress.file().at(5)
  await sleep(150)
  progress.end()
  assert.deepEqual(pipe.written, [])
})

test('a terminal gets one line, drawn over at most ten times a second and left at the end', async () => {
  const screen = terminal(true)
  const begun = performance.now()
  const progress = openProgress({ label: 'a.bin', files: 2, bytes: 2000 }, screen)
  const [one, two] = [progress.file(), progress.file()]
  while (performance.now() - begun < 350) {
    one.at(Math.random() * 1000)
    await sleep(1)
  }
  const drawn = screen.written.length
  assert.ok(drawn >= 1 && drawn <= (performance.now() - begun) / 100 + 1, `${drawn} times`)
  for (const file of [one, two]) {
    file.at(1000)
    file.done()
  }
  progress.aside(() => screen.write('warning: something\n'))
  progress.end()
  const text = screen.written.join('').replaceAll('\x1b[K', '')
  // Everything but the aside and the last line is overwritten.
  assert.equal(text.split('\n').length, 3)
  assert.match(text, /\rwarning: something\n\r2 of 2 files {2}█+ {2}100% {2}2\.0 kB .*\n$/)
})
