import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMailSlots, mailSlots } from './slots.ts'

/** Slots with a clock of the test's own, and deliveries that begin as long as they may. */
function stage() {
  let time = 0
  let mails = 0
  const slots = createMailSlots(() => time)
  const begin = (projectId: string): string | undefined => {
    const { excluded, isFull } = slots.state()
    if (isFull || excluded.includes(projectId)) return
    const id = `mail ${mails++}`
    slots.take(id, projectId)
    return id
  }
  const beginAll = (projects: readonly string[]) =>
    projects.flatMap(projectId => {
      const begun: string[] = []
      for (let id = begin(projectId); id !== undefined; id = begin(projectId)) begun.push(id)
      return begun
    })
  return { slots, begin, beginAll, pass: (ms: number) => (time += ms) }
}
const named = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => `${prefix} ${at}`)

test('a project has two deliveries at once, and all together fifty', () => {
  const { beginAll, slots } = stage()
  assert.equal(beginAll(['a']).length, 2)
  assert.equal(beginAll(named('p', 100)).length, 48)
  assert.equal(slots.state().isFull, true)
})

test('deliveries that take long leave their slots to other projects', () => {
  const { beginAll, begin, slots, pass } = stage()
  beginAll(named('slow', 25))
  assert.equal(begin('other'), undefined)
  assert.equal(slots.state().nextChangeMs, 10_000)
  pass(10_000)
  assert.notEqual(begin('other'), undefined)
})

test('projects whose servers were slow share half of the slots, until one is prompt again', () => {
  const { beginAll, begin, slots, pass } = stage()
  const slow = named('slow', 40)
  const first = beginAll(slow.slice(0, 25))
  pass(10_000)
  const second = beginAll(slow.slice(25))
  pass(50_000)
  for (const id of [...first, ...second]) slots.release(id)
  const again = beginAll(slow)
  assert.equal(again.length, mailSlots.slow, 'one for each, up to their part')
  assert.equal(beginAll(named('other', 100)).length, mailSlots.prompt - mailSlots.slow)
  slots.release(again[0]!)
  assert.equal(beginAll(['slow 0']).length, 1, 'nobody is excluded for good')
  assert.equal(begin('slow 1'), undefined)
})

test('a project counts as slow for ten minutes', () => {
  const { beginAll, slots, pass } = stage()
  const [id] = beginAll(['a'])
  pass(20_000)
  for (const each of [id!, 'mail 1']) slots.release(each)
  assert.equal(beginAll(['a']).length, 1)
  slots.release('mail 2')
  assert.equal(beginAll(['a']).length, 2, 'a prompt delivery ends that sooner')
})
