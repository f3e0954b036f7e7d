// Compares with a naive cron that tests every minute.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRandom, type Random } from '#test/fuzz/random.ts'
import { parseSchedule } from './schedule.ts'

interface Part {
  text: string
  has(value: number): boolean
}
interface Range {
  least: number
  most: number
  names?: string[]
}

const ranges: Range[] = [
  { least: 0, most: 59 },
  { least: 0, most: 23 },
  { least: 1, most: 31 },
  { least: 1, most: 12, names: 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ') },
  { least: 0, most: 6, names: 'sun mon tue wed thu fri sat'.split(' ') },
]

function randomPart(random: Random, { least, most, names }: Range): Part {
  const spell = (value: number) => {
    const name = names?.[value - least]
    return random.pick(name === undefined ? [String(value)] : [String(value), name, name.toUpperCase()])
  }
  const low = random.int(least, most)
  const high = random.int(low, most)
  const step = random.int(1, Math.min(9, most))
  return random.pick<Part>([
    { text: `*/${step}`, has: value => (value - least) % step === 0 },
    { text: `${spell(low)}-${spell(high)}`, has: value => value >= low && value <= high },
    {
      text: `${spell(low)}-${spell(high)}/${step}`,
      has: value => value >= low && value <= high && (value - low) % step === 0,
    },
    { text: spell(low), has: value => value === low },
    { text: spell(high), has: value => value === high },
  ])
}

function randomField(random: Random, range: Range): Part {
  if (random.chance(0.3)) return { text: '*', has: () => true }
  const parts = Array.from({ length: random.int(1, 3) }, () => randomPart(random, range))
  return { text: parts.map(({ text }) => text).join(','), has: value => parts.some(part => part.has(value)) }
}

interface Naive {
  text: string
  isDay(moment: Date): boolean
  isTime(moment: Date): boolean
}

function randomSchedule(random: Random): Naive {
  const fields = ranges.map(range => randomField(random, range))
  const [minutes, hours, days, months, weekdays] = fields as [Part, Part, Part, Part, Part]
  const isEither = !days.text.startsWith('*') && !weekdays.text.startsWith('*')
  return {
    text: fields.map(field => field.text).join(' '),
    isTime: moment => minutes.has(moment.getUTCMinutes()) && hours.has(moment.getUTCHours()),
    isDay(moment) {
      if (!months.has(moment.getUTCMonth() + 1)) return false
      const is = [days.has(moment.getUTCDate()), weekdays.has(moment.getUTCDay())]
      return isEither ? is.includes(true) : !is.includes(false)
    },
  }
}

const minuteMs = 60_000
const dayMs = 86_400_000
const endMs = Date.UTC(2037, 0)

/** Tests every minute of the days that match. */
function naiveNext({ isDay, isTime }: Naive, after: Date): Date | undefined {
  let at = (Math.floor(after.getTime() / minuteMs) + 1) * minuteMs
  while (at < endMs)
    if (!isDay(new Date(at))) at = (Math.floor(at / dayMs) + 1) * dayMs
    else if (!isTime(new Date(at))) at += minuteMs
    else return new Date(at)
  return undefined
}

test('cron: random schedules are due in the same minutes as with a naive implementation', () => {
  const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
  const random = createRandom(seed)
  for (let round = 0; round < 400; round++) {
    const naive = randomSchedule(random)
    const { next } = parseSchedule(naive.text)
    let after = new Date(Date.UTC(random.int(2024, 2032), 0, random.int(1, 366), 0, random.int(0, 1439), 30))
    for (let repeat = 0; repeat < 4; repeat++) {
      const tick = next(after)
      const isFar = !tick || tick.getTime() >= endMs
      const context = `seed ${seed}: "${naive.text}" after ${after.toISOString()}`
      assert.deepEqual(isFar ? undefined : tick, naiveNext(naive, after), context)
      if (isFar) break
      after = tick
    }
  }
})
