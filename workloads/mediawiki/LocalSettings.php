<?php
# The wiki; names between two @ are filled in for each run. Settings come from tuning.toml.
$wgSitename = 'Steelyard';
$wgServer = 'http://@address@:@port@';
$wgScriptPath = '';
$wgResourceBasePath = '';
$wgLanguageCode = 'en';
$wgDBtype = 'mysql';
$wgDBserver = 'localhost:@run@/database.sock';
$wgDBname = 'wiki';
$wgDBuser = 'wiki';
$wgDBpassword = '';
$wgDBTableOptions = 'ENGINE=InnoDB, DEFAULT CHARSET=binary';
$wgMemCachedServers = [ '127.0.0.1:@cache_port@' ];
$wgMemCachedPersistent = true;
# Signs tokens of this generated wiki alone.
$wgSecretKey = '@secret@';
$wgCacheDirectory = '@messages@';
$wgLocalisationCacheConf['store'] = 'array';
$wgLocalisationCacheConf['storeDirectory'] = '@messages@';
$wgLocalisationCacheConf['manualRecache'] = @manual_recache@;
$wgEnableUploads = false;
$wgDefaultSkin = 'vector';
wfLoadSkin( 'Vector' );
wfLoadExtension( 'Cite' );
wfLoadExtension( 'ParserFunctions' );
@settings@
