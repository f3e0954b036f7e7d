// 2 §2 and issue 5: valid schedules (five cron fields in UTC, or `N seconds`) and their next run.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CronApi, cronProject } from '../cron.ts'
import { bodyOf } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let cron: CronApi
before(async () => {
  it = await target()
  cron = await cronProject(it)
})
after(() => it.stop())

/** The parts of a minute in UTC. `isLast`: the day is the last of its month. */
interface Minute {
  minute: number
  hour: number
  day: number
  month: number
  weekday: number
  isLast: boolean
}
type Rule = (at: Minute) => boolean

const dayMs = 86_400_000
const minuteOf = (time: number): Minute => {
  const date = new Date(time)
  return {
    minute: date.getUTCMinutes(),
    hour: date.getUTCHours(),
    day: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    weekday: date.getUTCDay(),
    isLast: new Date(time + dayMs).getUTCDate() === 1,
  }
}

/** The first minute after a moment that matches the rule, by an independent implementation. */
function firstAfter(moment: number, rule: Rule): number {
  const start = Math.floor(moment / 60_000) * 60_000 + 60_000
  for (let time = start; time < start + 9 * 366 * dayMs; ) {
    if (rule(minuteOf(time))) return time
    // Skips a day without a matching minute at once, so that leap days are found quickly.
    const isHopeless = time % dayMs === 0 && !dayHolds(time, rule)
    time += isHopeless ? dayMs : 60_000
  }
  return assert.fail('the rule is never true')
}
const dayHolds = (day: number, rule: Rule) => {
  for (let time = day; time < day + dayMs; time += 60_000) if (rule(minuteOf(time))) return true
  return false
}

const at =
  (hour: number, minute: number, also: Rule): Rule =>
  now =>
    now.hour === hour && now.minute === minute && also(now)

const rules: [string, Rule][] = [
  ['* * * * *', () => true],
  ['0 * * * *', now => now.minute === 0],
  ['59 23 31 12 *', at(23, 59, now => now.day === 31 && now.month === 12)],
  ['*/5 * * * *', now => now.minute % 5 === 0],
  ['*/7 * * * *', now => now.minute % 7 === 0],
  ['10-50/20 * * * *', now => [10, 30, 50].includes(now.minute)],
  ['1,2,30-32 * * * *', now => [1, 2, 30, 31, 32].includes(now.minute)],
  ['0-10/5,45 6-8,20 * * *', now => [0, 5, 10, 45].includes(now.minute) && [6, 7, 8, 20].includes(now.hour)],
  ['0 */6 * * *', now => now.minute === 0 && now.hour % 6 === 0],
  ['0 0 * * *', at(0, 0, () => true)],
  ['0 3 * * mon', at(3, 0, now => now.weekday === 1)],
  ['0 3 * * 1', at(3, 0, now => now.weekday === 1)],
  ['0 3 * * MON', at(3, 0, now => now.weekday === 1)],
  ['15 9 * * mon-fri', at(9, 15, now => now.weekday >= 1 && now.weekday <= 5)],
  ['15 9 * * sat,sun', at(9, 15, now => now.weekday === 0 || now.weekday === 6)],
  ['15 9 * * 0', at(9, 15, now => now.weekday === 0)],
  ['15 9 * * 7', at(9, 15, now => now.weekday === 0)],
  ['15 9 * * sun', at(9, 15, now => now.weekday === 0)],
  ['15 9 * * 5-7', at(9, 15, now => [5, 6, 0].includes(now.weekday))],
  ['0 0 1 * *', at(0, 0, now => now.day === 1)],
  ['0 0 15 jan *', at(0, 0, now => now.day === 15 && now.month === 1)],
  ['0 0 15 jan,Jul *', at(0, 0, now => now.day === 15 && [1, 7].includes(now.month))],
  ['0 0 15 feb-apr *', at(0, 0, now => now.day === 15 && [2, 3, 4].includes(now.month))],
  ['0 0 15 */4 *', at(0, 0, now => now.day === 15 && [1, 5, 9].includes(now.month))],
  ['0 0 31 * *', at(0, 0, now => now.day === 31)],
  ['0 0 29 2 *', at(0, 0, now => now.day === 29 && now.month === 2)],
  ['0 12 L * *', at(12, 0, now => now.isLast)],
  ['0 12 $ * *', at(12, 0, now => now.isLast)],
  ['0 12 L 2 *', at(12, 0, now => now.isLast && now.month === 2)],
  ['0 12 $ 2 *', at(12, 0, now => now.isLast && now.month === 2)],
  ['0 12 1,L * *', at(12, 0, now => now.isLast || now.day === 1)],
  // As in every cron: if both day fields are restricted, either may match.
  ['0 0 13 * fri', at(0, 0, now => now.day === 13 || now.weekday === 5)],
]

for (const [schedule, rule] of rules)
  test(`issue 5: the next run of \`${schedule}\` is computed in UTC`, async () => {
    const before = Date.now()
    const { next_run_at, schedule: kept } = await cron.schedule('next', schedule, 'select 1')
    // A minute may have passed since the request.
    const due = [firstAfter(before, rule), firstAfter(Date.now(), rule)]
    assert.equal(kept, schedule)
    assert.ok(
      due.includes(Date.parse(next_run_at)),
      `${next_run_at} is not ${new Date(due[0]!).toISOString()}`,
    )
    const [job] = await cron.jobs()
    assert.ok([...due, firstAfter(Date.now(), rule)].includes(Date.parse(job.next_run_at)), job.next_run_at)
  })

for (const seconds of [1, 2, 5, 30, 59])
  test(`2 §2 the next run of \`${seconds} seconds\` is within that many seconds`, async () => {
    const own = await cronProject(it)
    const before = Date.now()
    const job = await own.schedule('often', `${seconds} seconds`, 'select 1')
    assert.equal(job.schedule, `${seconds} seconds`)
    const due = Date.parse(job.next_run_at)
    assert.ok(due >= before - 5000 && due <= Date.now() + seconds * 1000 + 5000, job.next_run_at)
    await own.unschedule('often')
  })

const invalid = [
  ' ',
  'x',
  'never',
  '*',
  '* * * *',
  '* * * * * *',
  '0 * * * * *',
  '* * * * * * *',
  '60 * * * *',
  '-1 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '* * 32 * *',
  '* * * 0 *',
  '* * * 13 *',
  '* * * * 8',
  '* * * foo *',
  '* * * * foo',
  'mon * * * *',
  '* * jan * *',
  'L * * * *',
  '*/0 * * * *',
  '*/-5 * * * *',
  '*/x * * * *',
  '1- * * * *',
  '-5 * * * *',
  '1-2-3 * * * *',
  '0-60 * * * *',
  '1,,2 * * * *',
  ',1 * * * *',
  '1, * * * *',
  '1.5 * * * *',
  '0x5 * * * *',
  '*5 * * * *',
  '** * * * *',
  '* * * * *; select 1',
  '@daily',
  '@reboot',
  '@every 5s',
  '2035-01-01T00:00:00',
  '2035-01-01T00:00:00Z',
  '0 seconds',
  '60 seconds',
  '3600 seconds',
  '-5 seconds',
  '1.5 seconds',
  '5e0 seconds',
  'x seconds',
  'seconds',
  '5 minutes',
  '5 seconds ago',
  '５ seconds',
  'every 5 seconds',
  '5 5 seconds',
]

test('Queues contract §6: an invalid schedule is 400 and schedules nothing', async () => {
  const own = await cronProject(it)
  for (const schedule of invalid) {
    const reply = await own.post('jobs', { name: 'bad', schedule, command: 'select 1' })
    assert.equal(reply.status, 400, `${JSON.stringify(schedule)}: ${reply.status} ${reply.text}`)
    assertDataError(reply, 'invalid_schedule')
  }
  assert.deepEqual(await own.jobs(), [])
})

test('Queues contract §6: an invalid schedule does not change the existing job', async () => {
  const own = await cronProject(it)
  const job = await own.schedule('kept', '0 0 1 1 *', 'select 1')
  for (const schedule of ['* * * *', '61 * * * *', '0 seconds'])
    assertDataError(
      await own.post('jobs', { name: 'kept', schedule, command: 'select 2' }),
      'invalid_schedule',
    )
  assert.deepEqual(await own.jobs(), [job])
})

test('2 §2 a date that does not exist is either rejected or never due', async () => {
  const own = await cronProject(it)
  const reply = await own.post('jobs', { name: 'never', schedule: '0 0 30 2 *', command: 'select 1' })
  if (reply.status === 400) assertDataError(reply, 'invalid_schedule')
  else assert.equal(bodyOf(reply, 201).next_run_at, null)
})
