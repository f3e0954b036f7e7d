import type { RealtimeTable } from '@plinth/contract/realtime.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { connect } from '../platform.ts'
import { clean, table } from '../print.ts'
import { projectId } from '../project.ts'

export async function tables(context: Context): Promise<Answer> {
  const platform = connect(context)
  const id = await projectId(context, platform)
  const found = await everyPage<RealtimeTable>(async query => {
    const page = await platform.realtime.listTables({ params: { id }, query })
    return { items: page.tables, total: page.total }
  })
  return {
    data: { tables: found, total: found.length },
    hints: found.length === 0 ? ['There are no tables yet; every new one sends its changes.'] : [],
    text: paint =>
      found.length === 0
        ? ''
        : table(
            paint,
            ['TABLE', 'CHANGES', 'RLS', 'PUBLIC', 'SENT TO'],
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
  if (rls_enabled) return 'whoever sees the row'
  return realtime_public ? 'whoever may read the table' : 'service_role alone'
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
      'Nothing is said about the table.',
      'Give --cdc true or false, --rls-public true or false, or both.',
    )
  const platform = connect(context)
  const id = await projectId(context, platform)
  const state = await platform.realtime.setTable({ params: { id, table: operands['table']! }, body })
  const isIdle = state.realtime_public && state.rls_enabled
  return {
    data: state,
    text: () => `Changes of ${clean(state.table)} are sent to ${receivers(state)}.`,
    hints: isIdle ? ['Its row-level security is on: policies decide, and --rls-public does not count.'] : [],
  }
}
