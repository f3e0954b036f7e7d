// The table columns that a view shows, from the view's rule in pg_rewrite.
import { isNode, parseNodeTree, type Tree, type TreeNode } from './node-tree.ts'

export interface ViewColumn {
  name: string
  /** The oid of the relation and the number of the column it shows unchanged. That relation may be a view. */
  table?: number
  column?: number
  /** False for a plain reference that no outer join can turn into null. The column itself may still be nullable. */
  isNullable: boolean
}

const plainRelation = '0'

/** `evAction` is pg_rewrite.ev_action of a view's _RETURN rule. */
export function viewColumns(evAction: string): ViewColumn[] {
  const [query] = parseNodeTree(evAction) as Tree[]
  if (!isNode(query)) return []
  return list(query.fields['targetList'])
    .filter(entry => isNode(entry) && entry.fields['resjunk'] !== 'true')
    .map(entry => columnOf(entry as TreeNode, query))
}

function columnOf({ fields }: TreeNode, query: TreeNode): ViewColumn {
  const name = String(fields['resname'])
  const table = Number(fields['resorigtbl'])
  if (!table) return { name, isNullable: true }
  const expression = fields['expr']
  return {
    name,
    table,
    column: Number(fields['resorigcol']),
    isNullable: !(isNode(expression) && isNeverNulled(expression, query)),
  }
}

/** A column of a plain relation on no nullable side of a join. Before Postgres 16 this is unknown, so false. */
function isNeverNulled({ kind, fields }: TreeNode, query: TreeNode): boolean {
  if (kind !== 'VAR' || fields['varlevelsup'] !== '0') return false
  const nulledBy = fields['varnullingrels']
  if (!Array.isArray(nulledBy) || nulledBy.length > 1) return false
  const source = list(query.fields['rtable'])[Number(fields['varno']) - 1]
  return isNode(source) && source.fields['rtekind'] === plainRelation
}

const list = (tree: Tree | undefined): Tree[] => (Array.isArray(tree) ? tree : [])
