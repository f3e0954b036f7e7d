import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BackupProgress } from '@plinth/contract/backups.ts'
import { ReplyError } from '@plinth/contract/client.ts'
import { Interrupted } from '../failure.ts'
import type { Output } from '../io.ts'
import { openScreen } from '../print.ts'
import { progressText, waitFor } from './wait.ts'

function terminal(isTTY: boolean) {
  const written: string[] = []
  const stderr = { isTTY, columns: 40, write: (text: string) => written.push(text) } as unknown as Output
  const stopping = new AbortController()
  const screen = openScreen(
    { stdin: process.stdin, stdout: stderr, stderr },
    { format: 'text', hasColor: false, isDebug: false },
  )
  return { context: { stderr, screen, interruption: () => stopping.signal }, written, stopping }
}

const rows = { step: 'rows', bytes: 12_300_000 }

/** Answers with one progress after the other, and then with null. */
function task(...steps: (BackupProgress | Error)[]) {
  return async () => {
    const step = steps.shift() ?? null
    if (step instanceof Error) throw step
    return { progress: step }
  }
}

test('backup progress: the line has the step, the bytes and the time', () => {
  assert.equal(progressText('Backup', rows, 4.2), 'Backup: rows  12.3 MB  4.2s')
  assert.equal(progressText('Backup', { step: 'waiting', bytes: 0 }, 61), 'Backup: waiting  1m 1s')
})

test('backup progress: a terminal shows it in one line, which is removed at the end', async () => {
  const { context, written } = terminal(true)
  const { ended, seconds } = await waitFor(context, 'Backup', task(rows))
  assert.equal(ended.progress, null)
  assert.ok(seconds > 0)
  assert.match(written[0]!, /^\rBackup: rows {2}12\.3 MB {2}\d+\.\ds/)
  assert.ok(written[0]!.endsWith('\x1b[K'))
  assert.deepEqual(written.slice(1), ['\r\x1b[K'])
})

test('backup progress: a pipe shows none', async () => {
  const { context, written } = terminal(false)
  await waitFor(context, 'Backup', task(rows))
  assert.deepEqual(written, [])
})

test('backup progress: waits on while the platform restarts, and passes other errors on', async () => {
  const { context, written } = terminal(false)
  const { ended } = await waitFor(context, 'Backup', task(new TypeError('fetch failed'), rows))
  assert.equal(ended.progress, null)
  assert.match(written.join(''), /^warning: The platform cannot be reached/)
  const gone = new ReplyError(404, { code: 'project_not_found' }, null)
  await assert.rejects(waitFor(context, 'Backup', task(gone)), gone)
})

test('backup progress: Ctrl-C ends the command and says that the platform continues', async () => {
  const { context, written, stopping } = terminal(false)
  stopping.abort()
  await assert.rejects(waitFor(context, 'Backup', task(rows)), Interrupted)
  assert.match(written.join(''), /^The platform continues\. plinth backup list/)
})
