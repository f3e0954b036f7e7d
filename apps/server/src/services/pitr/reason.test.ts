import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece } from '#src/kernel/objects/pieces.ts'
import { RecoveryFailed } from '#src/kernel/postgres/recovery/recovery.ts'
import { UnreadableSpool } from '#src/kernel/postgres/recovery/wal-spool.ts'
import { archiveReason, reasonOf } from './reason.ts'

test('pitr: the reason of a failure has no path of the host and no log of the second server', async () => {
  const missing: Error = await readFile('/nothing/is/here').catch(error => error)
  const log =
    'Postgres ended with code 1 while starting (see /data/recovery-1/postgres.log):\nLOG:  redo starts'
  const errors = [
    missing,
    Object.assign(new Error('write /data/wal'), { code: 'ENOSPC', syscall: 'write', path: '/data/wal' }),
    new RecoveryFailed(new Error(log)),
    new DamagedFile('/data/backups/1'),
    new MissingPiece('/data/backups/1'),
    new UnreadableSpool('/data/wal/000000010000000000000003.partial'),
    new Error('/data/wal/000000010000000000000003.partial is shorter than what was written'),
    new Error('cannot use "/data/backups"'),
    new DOMException('The operation was aborted due to timeout', 'TimeoutError'),
  ]
  for (const error of errors)
    for (const reason of [reasonOf(error), archiveReason(error)]) {
      assert.doesNotMatch(reason, /\/|LOG:|\n/, reason)
      assert.match(reason, /^[A-Z].*\.$/)
    }
  for (const reason of [reasonOf, archiveReason])
    assert.match(
      reason(new UnreadableSpool('/data/wal/000000010000000000000003.partial')),
      /^The file 000000010000000000000003\.partial .* move the file away/,
    )
  assert.doesNotMatch(archiveReason(errors.at(-1)), /unctions/)
  assert.equal(
    archiveReason(new Error('the server is at 16/B374D848 already')),
    'The server is at 16/B374D848 already.',
  )
  assert.equal(reasonOf(new Error('the project was deleted')), 'the project was deleted')
})
