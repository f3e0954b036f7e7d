import type { RealtimeTable } from '@plinth/contract/realtime.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { clean, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function tables(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const found = await everyPage<RealtimeTable>(async query => {
    const page = await platform.realtime.listTables({ params: { id }, query })
    return { items: page.tables, total: page.total }
  })
  return {
    data: { tables: found, total: found.length },
    hints: found.length === 0 ? ['There are no tables yet. Every new table emits changes.'] : [],
    text: paint =>
      found.length === 0
        ? ''
        : table(
            paint,
            ['TABLE', 'CHANGES', 'RLS', 'PUBLIC', 'RECEIVERS'],
            found.map(each => [
              each.table,
              onOff(each.cdc_enabled),
              onOff(each.rls_enabled),
              each.realtime_public ? 'yes' : 'no',
              receivers(each),
            ]),
          ),
  }
}

const onOff = (is: boolean) => (is ? 'on' : 'off')

function receivers({ cdc_enabled, rls_enabled, realtime_public }: RealtimeTable): string {
  if (!cdc_enabled) return 'nobody'
  if (rls_enabled) return 'roles that may read the row'
  return realtime_public ? 'roles that may read the table' : 'only service_role'
}

export async function setTable(context: Context): Promise<Answer> {
  const { values, operands } = context.given
  const body = {
    ...(values['cdc'] && { cdc_enabled: values['cdc'] === 'true' }),
    ...(values['rls-public'] && { realtime_public: values['rls-public'] === 'true' }),
  }
  if (Object.keys(body).length === 0)
    throw new Failure(
      'usage_missing_flag',
      'There is nothing to change.',
      'Give --cdc true or false, --rls-public true or false, or both.',
    )
  const { platform, id } = await openProject(context)
  const state = await platform.realtime.setTable({ params: { id, table: operands['table']! }, body })
  const isWithoutEffect = state.realtime_public && state.rls_enabled
  return {
    data: state,
    text: () => `Receivers of changes of ${clean(state.table)}: ${receivers(state)}.`,
    hints: isWithoutEffect
      ? ['Row-level security is on for this table, so policies decide and --rls-public has no effect.']
      : [],
  }
}
