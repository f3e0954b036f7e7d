import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NotRestorable } from '#src/archive/restore-database.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { Interrupted, kindOfFailure } from './reason.ts'

test('backups: a verification that fails is counted by what it says of the backup', () => {
  const object = { kind: 'TABLE', tag: 'notes' } as ConstructorParameters<typeof NotRestorable>[0]
  const refused = new NotRestorable(object, new DatabaseError({ code: '23514', message: 'refused' }))
  const full = new NotRestorable(object, new DatabaseError({ code: '53100', message: 'no space' }))
  const late = new DOMException('it took too long', 'TimeoutError')
  assert.deepEqual([refused, late, new Error('unexpected')].map(kindOfFailure), Array(3).fill('unrestorable'))
  const damaged = [new DamagedFile('it is cut'), new MissingPiece('one')]
  assert.deepEqual(damaged.map(kindOfFailure), Array(2).fill('unreadable'))
  const outside = [full, new Interrupted(3), new ObjectsUnavailable('S3'), new NoSpace('full')]
  assert.deepEqual(outside.map(kindOfFailure), Array(4).fill('interrupted'))
})
