import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import { createLog, terminalLines } from './log.ts'

function logged(write: (log: ReturnType<typeof createLog>) => void): string {
  const lines: string[] = []
  write(createLog('info', { write: line => void lines.push(line) }))
  return lines.join('')
}

test('of a database error only code and place are logged, never its text', () => {
  const error = new DatabaseError({
    M: 'invalid input: "hunter2"',
    C: '22P02',
    D: 'Key (email)=(a@b.co)',
    R: 'scan',
  })
  const line = logged(log => log.error({ err: error }, 'failed'))
  assert.ok(line.includes('22P02') && line.includes('scan'))
  assert.ok(!line.includes('hunter2') && !line.includes('a@b.co'))
})

test('the cause of an error is logged by the same rule', () => {
  const cause = new DatabaseError({ M: 'hunter2', C: '23505' })
  const line = logged(log => log.error({ err: new Error('could not', { cause }) }, 'failed'))
  assert.ok(line.includes('could not') && line.includes('23505') && !line.includes('hunter2'))
})

test('at a terminal an entry is one readable line', () => {
  const lines: string[] = []
  createLog(
    'info',
    terminalLines(line => lines.push(line)),
  ).info({ port: 1 }, 'the database is running')
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d info {2}the database is running port=1\n$/)
})
