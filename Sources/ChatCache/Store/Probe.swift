import Platform

func schemaProbe() -> Int { PackageResources.v001_message_sql.count }
