import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { createLog, terminalLines } from './log.ts'

function logged(write: (log: ReturnType<typeof createLog>) => void): string {
  const lines: string[] = []
  write(createLog('info', { write: line => void lines.push(line) }))
  return lines.join('')
}

test('a database error is logged with its code and routine, never its message', () => {
  const error = new DatabaseError({
    message: 'invalid input: "hunter2"',
    code: '22P02',
    detail: 'Key (email)=(a@b.co)',
    routine: 'scan',
  })
  const line = logged(log => log.error({ err: error }, 'failed'))
  assert.ok(line.includes('22P02') && line.includes('scan'))
  assert.ok(!line.includes('hunter2') && !line.includes('a@b.co'))
})

test('the cause of an error is logged by the same rule', () => {
  const cause = new DatabaseError({ message: 'hunter2', code: '23505' })
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
