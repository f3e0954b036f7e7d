import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece } from '#src/kernel/objects/pieces.ts'
import { RecoveryFailed } from '#src/kernel/postgres/recovery/recovery.ts'
import { reasonOf } from './reason.ts'

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
  ]
  for (const error of errors) {
    const reason = reasonOf(error)
    assert.doesNotMatch(reason, /\/|LOG:|\n/, reason)
    assert.match(reason, /^[A-Z].*\.$/)
  }
  assert.equal(reasonOf(new Error('the project was deleted')), 'the project was deleted')
})
