import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Answered } from '#src/kernel/http/observation.ts'
import type { LogLine } from './line.ts'
import { createWaiting, itemsOf, usualLimits } from './waiting.ts'

const answer = (id: string, at = 0) => ({ id, at }) as Answered
const line = (at: number): LogLine => ({
  source: 'functions',
  name: 'f',
  at: new Date(at).toISOString(),
  level: 'info',
  event: 'output',
  message: `at ${at}`,
  request_id: null,
  facts: {},
})
const limits = { ...usualLimits, answers: 3, allAnswers: 5 }
const idsOf = (answers: readonly Answered[]) => answers.map(({ id }) => id)

test('waiting: answers beyond the bound of a project are counted, not kept', () => {
  const waiting = createWaiting(limits)
  for (const id of ['1', '2', '3', '4', '5']) waiting.addAnswer('p', answer(id))
  const batch = waiting.take('p')!
  assert.deepEqual([idsOf(batch.answers), batch.droppedAnswers], [['1', '2', '3'], 2])
  assert.equal(waiting.take('p'), undefined)
})

test('waiting: the bound of all projects together frees room when a batch is taken', () => {
  const waiting = createWaiting(limits)
  for (const project of ['p', 'q']) for (const id of ['1', '2', '3']) waiting.addAnswer(project, answer(id))
  assert.equal(waiting.take('q')!.droppedAnswers, 1)
  waiting.addAnswer('q', answer('4'))
  assert.deepEqual(idsOf(waiting.take('q')!.answers), ['4'])
  assert.equal(waiting.take('p')!.answers.length, 3)
})

test('waiting: what could not be written comes first, and the latest answers are dropped', () => {
  const waiting = createWaiting(limits)
  for (const id of ['1', '2']) waiting.addAnswer('p', answer(id))
  waiting.addLine('p', () => line(1))
  const batch = waiting.take('p')!
  for (const id of ['3', '4']) waiting.addAnswer('p', answer(id))
  waiting.addLine('p', () => line(2))
  waiting.putBack('p', { ...batch, droppedAnswers: 10 })
  const again = waiting.take('p')!
  assert.deepEqual([idsOf(again.answers), again.droppedAnswers], [['1', '2', '3'], 11])
  assert.deepEqual(
    again.lines.map(({ message }) => message),
    ['at 1', 'at 2'],
  )
  // The bound of all projects counts each answer once.
  for (const id of ['1', '2', '3']) waiting.addAnswer('q', answer(id))
  for (const id of ['1', '2', '3']) waiting.addAnswer('p', answer(id))
  assert.equal(waiting.take('q')!.answers.length + waiting.take('p')!.answers.length, 5)
})

test('waiting: dropped lines without any other line are reported with the next one', () => {
  const waiting = createWaiting({ ...limits, linesPerSecond: 0, lineBurst: 1 })
  waiting.addLine('p', () => line(1))
  assert.equal(waiting.take('p')!.lines.length, 1)
  waiting.addLine('p', () => line(2))
  waiting.addAnswer('p', answer('1'))
  assert.deepEqual(waiting.take('p')!.lines, [])
  assert.equal(waiting.take('p'), undefined)
  assert.deepEqual(waiting.projects(), ['p'])
})

test('waiting: the items of a batch are in the order of time, with the notice last', () => {
  const batch = {
    lines: [line(2), line(4)],
    answers: [answer('a', 1), answer('b', 2), answer('c', 9)],
    droppedAnswers: 6,
  }
  assert.deepEqual(
    itemsOf(batch).map(item => ('facts' in item ? item.message : 'dropped' in item ? item.dropped : item.id)),
    ['a', 'at 2', 'b', 'at 4', 'c', 6],
  )
})
